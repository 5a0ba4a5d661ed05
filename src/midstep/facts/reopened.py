"""A file that is looked at again and again: opened for each look, or held open between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

__all__ = ["Reopened"]


class Reopened:
    """Gives the descriptor of a file for one look.

    Whoever looks ten times a second beside a training holds it open: each call into the system
    hands the interpreter over and back. Whoever looks at a thousand runs does not.

    Args:
        path: the file.
        held: keep it open until `close`.
    """

    def __init__(self, path: Path, *, held: bool = False) -> None:
        self._path, self._held = path, held
        self._file: FileIO | None = None

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """For one look; the error of opening it is passed on."""
        file = self._file or FileIO(self._path)
        if self._held:
            self._file = file
        try:
            yield file.fileno()
        finally:
            if not self._held:
                file.close()

    def close(self) -> None:
        """Let it go; a further look opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
