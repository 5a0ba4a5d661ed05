"""The steering dataset on disk, in three forms."""
