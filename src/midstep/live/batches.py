"""What a loop was given for one optimizer step; the same for a session's own loop."""

from midstep.session.batches import SAMPLES_KEPT, Window, count_samples, join, labels_of

__all__ = ["SAMPLES_KEPT", "Window", "count_samples", "join", "labels_of"]
