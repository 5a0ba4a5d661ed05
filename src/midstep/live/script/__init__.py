"""`midstep run`: a training script under midstep, without an edit.

Nothing here imports torch before the script does.
"""
