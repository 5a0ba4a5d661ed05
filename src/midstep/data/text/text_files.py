"""The texts of a dataset, for reports and audits. Training never reads them.

`texts/questions.jsonl` has one JSON string per line. The line of row i begins at the byte offset
`texts/questions.offsets.npy`[i]. Sources and keywords have the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError
from midstep.core.files import storage
from midstep.core.files.untrusted_files import file_problem, open_file
from midstep.data.mapped_arrays import map_array

FOLDER = "texts"
LONGEST_BYTES = 16 << 20
"""A longer text, or line of a file, is not read into memory."""


def parse_json(content: str | bytes, where: str) -> Any:
    """Parse strict JSON.

    Args:
        content: the JSON text.
        where: names its file and position in the error.

    >>> parse_json("[1", "pairs.jsonl:7")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    midstep.core.errors.DatasetError: pairs.jsonl:7 is not JSON...
    """
    try:
        return strict_json.loads(content)
    except (FormatError, TypeError) as error:  # TypeError: a database may hold a number here
        raise DatasetError(f"{where} is {error}") from None


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that may come from elsewhere, each with its end.

    Raises:
        DatasetError: if it is missing, a link or a pipe, or has a line of more than 16 MiB.
    """
    problem = file_problem(path)
    if problem is not None:
        raise DatasetError(problem)
    with open_file(path) as file:
        while line := file.readline(LONGEST_BYTES + 1):
            if len(line) > LONGEST_BYTES:
                raise DatasetError(f"{path.name} has a line of more than {LONGEST_BYTES:,} bytes")
            yield line


def write_texts(folder: Path, name: str, texts: Sequence[str]) -> None:
    """Write texts of one kind into the folder of a dataset."""
    inside = storage.make_folder(folder / FOLDER)
    lines = [f"{strict_json.dumps(text)}\n".encode() for text in texts]
    offsets = np.zeros(len(lines) + 1, dtype=np.int64)
    np.cumsum([len(line) for line in lines], out=offsets[1:])
    with storage.replacement(inside / f"{name}.jsonl") as file:
        file.writelines(lines)
    with storage.replacement(inside / f"{name}.offsets.npy") as file:
        np.save(file, offsets, allow_pickle=False)


class Texts:
    """The texts of one kind. A text is read when it is used.

    Args:
        folder: the folder of the dataset.
        name: `questions`, `sources` or `keywords`.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self.path = Path(folder) / FOLDER / f"{name}.jsonl"
        offsets = self.path.with_suffix(".offsets.npy")
        problem = file_problem(self.path) or file_problem(offsets)
        if problem is not None:
            raise DatasetError(f"{self.path.parent}: {problem}")
        try:
            with open_file(offsets, below=1) as file:
                self._offsets = map_array(file)
            with open_file(self.path, below=1) as file:
                size = os.fstat(file.fileno()).st_size
                # An empty file cannot be mapped.
                self._bytes = np.memmap(file, mode="r") if size else np.zeros(0, dtype=np.uint8)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.path} cannot be read: {error}") from error
        if self._offsets.ndim != 1 or self._offsets.dtype.kind != "i" or not len(self._offsets):
            raise DatasetError(f"the offsets of {self.path} are not a list of whole numbers")

    @staticmethod
    def exist(folder: str | Path, name: str) -> bool:
        """Whether a dataset has texts of this kind."""
        return (Path(folder) / FOLDER / f"{name}.jsonl").is_file()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(row)
        start, stop = (int(each) for each in self._offsets[row : row + 2])
        if not 0 <= start <= stop <= start + LONGEST_BYTES:
            raise DatasetError(
                f"{self.path} row {row} is at {start} to {stop}, expected at most "
                f"{LONGEST_BYTES:,} bytes"
            )
        text = parse_json(self._bytes[start:stop].tobytes(), f"{self.path} row {row}")
        if not isinstance(text, str):
            raise DatasetError(f"{self.path} row {row} is {text!r}, expected a text")
        return text
