"""How many batches a pass over a loader has."""

from __future__ import annotations

from typing import Any

MOST_PASSES = 1000
"""A sampler that draws more than so many times the data in one pass counts as endless."""


def loader_length(loader: Any) -> int | None:
    """Batches in a pass; None if the loader has no length, or a sampler without an end.

    Scripts ask for 10^10 draws when they want a loop that never ends.

    >>> from torch.utils.data import DataLoader, RandomSampler
    >>> endless = RandomSampler(range(8), replacement=True, num_samples=10**10)
    >>> loader_length(DataLoader(range(8), sampler=endless)), loader_length(DataLoader(range(8)))
    (None, 8)
    """
    if loader is None:
        return None
    dataset: Any
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "sampler", None)
    draws = getattr(sampler, "num_samples", None)
    if draws is not None and hasattr(dataset, "__len__") and draws > MOST_PASSES * len(dataset):
        return None
    length_called = getattr(loader, "_IterableDataset_len_called", None)
    try:
        return len(loader)
    except TypeError:
        return None
    finally:
        # A DataLoader remembers that `len` was called, and would warn of a wrong length later on.
        if hasattr(loader, "_IterableDataset_len_called"):
            loader._IterableDataset_len_called = length_called
