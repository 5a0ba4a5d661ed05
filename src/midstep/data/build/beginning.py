"""What can be known to be wrong with a build before the first table is read."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.data.build.config import BuildConfig
from midstep.data.build.encoders import check_encoder
from midstep.data.build.reading import check_tables
from midstep.data.build.stages import stored_vectors

__all__ = ["check_beginning"]


def check_beginning(config: BuildConfig) -> None:
    """Tables, vectors, encoder and form of a build; a long table is not read for nothing.

    Raises:
        ConfigError: for an encoder nobody knows.
        DatasetError: for a table, a model or a file of vectors that is not there or of no use.
        MissingExtraError: where the form or the encoder needs a package that is not installed.
    """
    if config.form == "hdf5" and importlib.util.find_spec("h5py") is None:
        raise MissingExtraError.of("h5py", "data")
    if config.embeddings is None:
        check_encoder(config.encoder)
    else:
        _check_given(Path(config.embeddings))
    check_tables(config)


def _check_given(folder: Path) -> None:
    questions, sources = (
        stored_vectors(folder / f"{name}.npy") for name in ("questions", "sources")
    )
    if questions.shape != sources.shape:
        raise DatasetError(
            f"{folder / 'questions.npy'} is {list(questions.shape)}, sources.npy "
            f"{list(sources.shape)}; both have a row for each row of the tables, of one width"
        )
