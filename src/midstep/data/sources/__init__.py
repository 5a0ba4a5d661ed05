"""Data sources by name: generated events, files, and real data that comes inside packages.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.data.sources.data_config import DataConfig as DataConfig
    from midstep.data.sources.dataloaders import load_source as load_source
    from midstep.data.sources.dataloaders import make_dataloaders as make_dataloaders
    from midstep.data.sources.dataloaders import make_loaders as make_loaders
    from midstep.data.sources.registry import register_source as register_source
    from midstep.data.sources.registry import source_names as source_names
    from midstep.data.sources.source_data import ColumnsDataset as ColumnsDataset
    from midstep.data.sources.source_data import SourceData as SourceData

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".data_config": "DataConfig",
        ".dataloaders": "load_source make_dataloaders make_loaders",
        ".registry": "register_source source_names",
        ".source_data": "ColumnsDataset SourceData",
    },
)
