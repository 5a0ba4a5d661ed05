"""Files beside the tables, for people: the texts. Training never reads them.

`texts/questions.jsonl` has one JSON string a line, the line of row i beginning at byte
`texts/questions.offsets.npy`[i]; likewise sources and keywords.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError
from midstep.core.files import storage

TEXTS = ("questions", "sources", "keywords")
FOLDER = "texts"


def write_texts(folder: Path, name: str, texts: Sequence[str]) -> None:
    """Write one kind of texts into a dataset's folder."""
    inside = storage.make_folder(folder / FOLDER)
    lines = [f"{strict_json.dumps(text)}\n".encode() for text in texts]
    offsets = np.zeros(len(lines) + 1, dtype=np.int64)
    np.cumsum([len(line) for line in lines], out=offsets[1:])
    with storage.replacement(inside / f"{name}.jsonl") as file:
        file.writelines(lines)
    with storage.replacement(inside / f"{name}.offsets.npy") as file:
        np.save(file, offsets, allow_pickle=False)


class Texts:
    """The texts of one kind, read a row at a time.

    Args:
        folder: of the dataset.
        name: `questions`, `sources` or `keywords`.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self.path = Path(folder) / FOLDER / f"{name}.jsonl"
        try:
            self._offsets = np.load(self.path.with_suffix(".offsets.npy"), allow_pickle=False)
            there = self.path.stat().st_size
            self._bytes = np.memmap(self.path, mode="r") if there else np.zeros(0, dtype=np.uint8)
        except (OSError, ValueError) as error:
            raise DatasetError(f"{self.path} cannot be read: {error}") from error

    @staticmethod
    def exist(folder: str | Path, name: str) -> bool:
        """Whether a dataset has them."""
        return (Path(folder) / FOLDER / f"{name}.jsonl").is_file()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> str:
        if not 0 <= row < len(self):
            raise IndexError(row)
        start, stop = (int(each) for each in self._offsets[row : row + 2])
        try:
            text = strict_json.loads(self._bytes[start:stop].tobytes())
        except FormatError as error:
            raise DatasetError(f"{self.path} row {row} is {error}") from None
        if not isinstance(text, str):
            raise DatasetError(f"{self.path} row {row} is {text!r}, expected a text")
        return text
