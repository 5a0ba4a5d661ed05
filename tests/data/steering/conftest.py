"""A small dataset in each form, written once."""

from __future__ import annotations

from pathlib import Path

import pytest

from midstep.data import write_dataset
from midstep.data.steering.storage.layout import FORMS
from tests.data.steering.table_samples import sample_config, sample_tables


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By form; only to be read."""
    root = tmp_path_factory.mktemp("datasets")
    return {
        form: write_dataset(root / form, sample_tables(half=True), sample_config(), form)
        for form in FORMS
    }


@pytest.fixture(scope="session")
def folder(folders: dict[str, Path]) -> Path:
    return folders["memmap"]
