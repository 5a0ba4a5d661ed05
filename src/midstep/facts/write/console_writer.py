"""Writes what a run prints: the first part for good, of what follows the last parts.

Overwritten lines, such as those of a progress bar, are written as they were left; tokens of a page
are masked. Nothing here is safe against two threads: `ConsoleCapture` has one that writes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from midstep.core.files.masked_text import mask_page_tokens
from midstep.core.files.storage import AppendFile, storage_error
from midstep.core.files.untrusted_files import open_folder
from midstep.facts.format.console_parts import (
    FIRST,
    ConsolePart,
    count_lines,
    list_parts,
    name_of,
)

FIRST_BYTES = 256 << 10
"""The first part is kept for good."""
LAST_BYTES = 4 << 20
"""Of what follows at least the last so many bytes are kept."""
PART_BYTES = 512 << 10
"""A later part is at most so long; so much more than `LAST_BYTES` is kept at most."""
MOST_PARTS = 64
"""Each attempt begins a part of its own."""
LONGEST_LINE = 64 << 10
"""A longer line is written in pieces."""
_HELD_BACK = 1 << 10
"""A piece of a long line does not end within so many characters after a `#`."""


class OpenLine:
    r"""The line that is being printed, of which a part may be in the file already.

    >>> line = OpenLine()
    >>> line.feed("one\n 10%\r 20%"), line.commit(), line.feed("\r 30%\n")
    ('one\n', ' 20%', '\r 30%\n')
    """

    def __init__(self) -> None:
        self._text = ""
        self._written = ""

    def feed(self, text: str) -> str:
        """Take more text; returns the lines that are finished, as they were left."""
        finished, newline, self._text = (self._text + text).rpartition("\n")
        done = ""
        if newline:
            if "\r" in finished:
                finished = "\n".join(map(_left, finished.split("\n")))
            first, newline, others = f"{finished}\n".partition("\n")
            done = self._rest(mask_page_tokens(first)) + newline + mask_page_tokens(others)
            self._written = ""
        if "\r" in self._text:
            self._text = _left(self._text) + ("\r" if self._text.endswith("\r") else "")
        if len(self._text) > LONGEST_LINE:
            done += self._cut()
        return done

    @property
    def is_open(self) -> bool:
        """Whether there is text without an end of line."""
        return bool(self._text or self._written)

    def commit(self) -> str:
        """What of the open line is not in the file yet: a reader then sees it too."""
        shown = mask_page_tokens(_left(self._text))
        rest = self._rest(shown)
        self._written = shown or self._written
        return rest

    def _rest(self, line: str) -> str:
        r"""`line` without what was written of it; all of it after a `\r` if it was overwritten."""
        if line.startswith(self._written):
            return line[len(self._written) :]
        return f"\r{line}"

    def _cut(self) -> str:
        """The beginning of a line that is too long, cut where no token can be cut in two."""
        at = self._text.rfind("#", len(self._text) - _HELD_BACK)
        at = len(self._text) if at <= 0 else at
        piece, self._text = self._text[:at], self._text[at:]
        rest = self._rest(mask_page_tokens(piece))
        self._written = ""
        return rest


def _left(line: str) -> str:
    """What a terminal shows of a line in the end."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part), "")


class ConsoleWriter:
    """Writes into the files of `facts.format.console_parts`, each only for this user.

    Args:
        run_dir: the run directory. What earlier attempts printed is continued.

    Raises:
        StorageError: the disk refuses; also from `write`. Nothing more should be written then.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._parts = list_parts(run_dir)
        self._line = OpenLine()
        last = self._parts[-1] if self._parts else None
        self.offset = 0 if last is None else last.stop
        """Bytes printed so far."""
        self.line = 1 if last is None else last.line + (count_lines(run_dir, last, last.stop) or 0)
        """Number of the line that is printed next, from 1."""
        self._file: AppendFile | None = None
        self._file_position = (0, 1)
        self._room = 0

    def write(self, text: str) -> None:
        """Write the lines that are finished with this text."""
        self._append(self._line.feed(text))

    def commit_line(self) -> None:
        """Write what there is of the line in progress."""
        self._append(self._line.commit())

    @property
    def is_in_line(self) -> bool:
        """Whether the last line has no end yet."""
        return self._line.is_open

    def skip(self, characters: int, lines: int) -> None:
        """Leave out text that came faster than it could be written."""
        self._close_file()
        self.offset += characters
        self.line += lines

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        while data:
            if self._file is None or self._room <= 0:
                self._next_part()
            piece = _whole_lines(data, self._room)
            self._write_piece(piece)
            data = data[len(piece) :]

    def _write_piece(self, piece: bytes) -> None:
        file = self._file
        assert file is not None  # noqa: S101 - opened above
        if not file.in_place():
            raise storage_error(file.path, "append to", FileNotFoundError(2, "it is gone"))
        file.append(piece)
        # A piece longer than the room is one line; it ends the part.
        self._room -= len(piece)
        self.offset += len(piece)
        self.line += piece.count(b"\n")

    def _next_part(self) -> None:
        self._close_file()
        name = name_of(self.offset, self.line)
        self._room = FIRST_BYTES if name == FIRST else PART_BYTES
        self._file = AppendFile(self._run_dir / name)
        self._file_position = self.offset - self._file.size, self.line
        self._remove_old()

    def _remove_old(self) -> None:
        """Remove the oldest parts but the first, as long as the others hold enough."""
        later = [part for part in self._parts if part.name != FIRST]
        with open_folder(self._run_dir) as folder:
            while later and (
                sum(part.size for part in later[1:]) >= LAST_BYTES or len(later) >= MOST_PARTS
            ):
                old = later.pop(0)
                self._parts.remove(old)
                with suppress(FileNotFoundError):
                    os.unlink(old.name, dir_fd=folder)

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        offset, line = self._file_position
        name, size = file.path.name, file.size
        self._parts.append(ConsolePart(offset=offset, line=line, name=name, size=size))
        file.close()

    def close(self) -> None:
        """Write the rest of the last line, and close the file."""
        try:
            self.commit_line()
        finally:
            self._close_file()


def _whole_lines(data: bytes, room: int) -> bytes:
    """As many whole lines as fit into `room`; the first line if not even that one does."""
    if len(data) <= room:
        return data
    end = data.rfind(b"\n", 0, room) + 1 or data.find(b"\n") + 1
    return data[: end or len(data)]
