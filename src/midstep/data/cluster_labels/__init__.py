"""The cluster-labelled dataset."""
