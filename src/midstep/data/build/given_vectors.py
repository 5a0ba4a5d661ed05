"""Vectors that were computed elsewhere, in place of an encoder: one row for each row of the tables.

A folder has questions.npy and sources.npy; with keywords also keywords.npy, and keywords.txt with
one keyword a line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.build.distinct_texts import DistinctTexts
from midstep.data.build.stage_cache import StageData


def check_given_vectors(folder: Path) -> None:
    """Check shapes and types of the vectors in a folder; their values are not read yet."""
    questions, sources = (
        _open_vectors(folder / f"{name}.npy") for name in ("questions", "sources")
    )
    if questions.shape != sources.shape:
        raise DatasetError(
            f"{folder / 'questions.npy'} is {list(questions.shape)}, sources.npy "
            f"{list(sources.shape)}; both need one row for each row of the tables, of one width"
        )


def read_given_vectors(folder: Path, texts: DistinctTexts, rows: int) -> StageData:
    """Read the vectors of all texts.

    Args:
        folder: holds the files.
        texts: the distinct texts of the tables.
        rows: how many rows the tables have.
    """
    given = {}
    for name, first_rows in (("questions", texts.question_row), ("sources", texts.source_row)):
        path = folder / f"{name}.npy"
        vectors = _read_vectors(path)
        if len(vectors) != rows:
            raise DatasetError(
                f"{path} has {len(vectors)} rows, the tables have {rows}; "
                "write a row for each row of the tables, in their order"
            )
        given[name] = vectors[first_rows]
    width = given["questions"].shape[1]
    given["keywords"] = _keyword_vectors(folder, texts, width)
    for name, vectors in given.items():
        if vectors.shape[1] != width:
            raise DatasetError(
                f"{folder / name}.npy is {vectors.shape[1]} wide, questions.npy {width}; "
                "encode both with the same encoder"
            )
    return given


def _keyword_vectors(folder: Path, texts: DistinctTexts, width: int) -> NDArray[np.float32]:
    if not texts.keywords:
        return np.zeros((0, width), dtype=np.float32)
    vectors, path = _read_vectors(folder / "keywords.npy"), folder / "keywords.txt"
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror}; write one keyword a line, in the order "
            "of keywords.npy"
        ) from error
    rows = {name.strip(): row for row, name in enumerate(names)}
    missing = [each for each in texts.keywords if each not in rows]
    if missing or len(names) != len(vectors):
        problem = f"no line {missing[0]!r}" if missing else f"{len(names)} lines"
        raise DatasetError(f"{path} has {problem}, keywords.npy has {len(vectors)} rows")
    return vectors[[rows[each] for each in texts.keywords]]


def _open_vectors(path: Path) -> NDArray[Any]:
    """Map the matrix of a .npy file: floats [N, D]. Its values are not checked."""
    try:
        vectors: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror or error}; --embeddings takes a folder with "
            "questions.npy and sources.npy, a row for each row of the tables"
        ) from None
    except ValueError as error:
        raise DatasetError(
            f"{path} cannot be read: {error}; write it with numpy.save, floats [N, D]"
        ) from None
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DatasetError(
            f"{path} is {vectors.dtype} {list(vectors.shape)}, expected floats [N, D]"
        )
    return vectors


def _read_vectors(path: Path) -> NDArray[np.float32]:
    vectors = _open_vectors(path)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise DatasetError(f"{path}[{wrong[0]}] has a value that is not finite")
    return np.asarray(vectors, dtype=np.float32)
