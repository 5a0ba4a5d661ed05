"""The order of samples, the sources they come from, and embedding datasets.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.data.embedding.config import DatasetConfig
    from midstep.data.embedding.curriculum import Bands, DistanceGated, LinearZero
    from midstep.data.embedding.dataset import JASPERSteeringDataset
    from midstep.data.embedding.layout import Ragged
    from midstep.data.embedding.loader import SteeringLoader, create_loader
    from midstep.data.embedding.tables import Tables, open_tables
    from midstep.data.embedding.validation import validate_first_batch
    from midstep.data.embedding.writing import convert, write_dataset

__all__ = [
    "Bands",
    "DatasetConfig",
    "DistanceGated",
    "JASPERSteeringDataset",
    "LinearZero",
    "Ragged",
    "SteeringLoader",
    "Tables",
    "convert",
    "create_loader",
    "open_tables",
    "validate_first_batch",
    "write_dataset",
]

_HOME = {
    "Bands": ".embedding.curriculum",
    "DatasetConfig": ".embedding.config",
    "DistanceGated": ".embedding.curriculum",
    "JASPERSteeringDataset": ".embedding.dataset",
    "LinearZero": ".embedding.curriculum",
    "Ragged": ".embedding.layout",
    "SteeringLoader": ".embedding.loader",
    "Tables": ".embedding.tables",
    "convert": ".embedding.writing",
    "create_loader": ".embedding.loader",
    "open_tables": ".embedding.tables",
    "validate_first_batch": ".embedding.validation",
    "write_dataset": ".embedding.writing",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
