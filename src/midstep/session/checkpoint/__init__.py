"""Checkpoints on disk: folders, tensor files, hashes, fingerprints."""
