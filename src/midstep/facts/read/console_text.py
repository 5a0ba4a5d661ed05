"""Reads what a run printed, by byte offsets over all of it; parts in the middle may be missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from midstep.core.files.untrusted_files import open_plain
from midstep.facts.format.console_parts import ConsolePart, count_lines, list_parts


@dataclass(frozen=True, kw_only=True)
class ConsoleText:
    """A piece of what was printed."""

    text: str
    start: int
    """Its first byte."""
    end: int
    """The byte after its last one."""
    size: int
    """Bytes that were printed."""
    line: int | None
    """Number of its first line, from 1; None if the lines before it were not counted."""


def read_console(
    run_dir: Path, *, after: int | None = None, tail: int = 0, most: int = 256 << 10
) -> ConsoleText:
    """The text from the byte `after` on, or the last `tail` bytes; at most `most` bytes.

    A text never reaches over a part that is missing. Where `after` lies in one, the text begins
    after it.

    Raises:
        OSError: a part was removed meanwhile.
    """
    parts = list_parts(run_dir)
    size = max((part.stop for part in parts), default=0)
    wanted = max(0, size - tail) if after is None else min(after, size)
    if after is None:
        parts = _without_gap(parts)
    part = next((each for each in parts if wanted < each.stop), None)
    if part is None:
        return ConsoleText(text="", start=size, end=size, size=size, line=None)
    start = max(wanted, part.offset)
    data = _read(run_dir, parts, start, most)
    if after is None and start > part.offset:  # the cut may be inside a character of UTF-8
        begins = (at for at, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80)
        skipped = next(begins, min(4, len(data)))
        start, data = start + skipped, data[skipped:]
    data = data[: len(data) - _incomplete_bytes(data)]
    lines = count_lines(run_dir, part, start)
    return ConsoleText(
        text=data.decode("utf-8", "replace"),
        start=start,
        end=start + len(data),
        size=size,
        line=None if lines is None else part.line + lines,
    )


def _without_gap(parts: list[ConsolePart]) -> list[ConsolePart]:
    """The last parts that follow each other."""
    kept = parts[-1:]
    for part in reversed(parts[:-1]):
        if part.stop != kept[0].offset:
            break
        kept.insert(0, part)
    return kept


def _read(run_dir: Path, parts: list[ConsolePart], start: int, most: int) -> bytes:
    """Bytes from `start` on, up to `most` and up to the first missing part."""
    data, at = b"", start
    for part in parts:
        if part.stop <= at or len(data) >= most:
            continue
        if part.offset > at:
            break
        with open_plain(run_dir, part.name) as file:
            file.seek(at - part.offset)
            # No more than was listed: the next part begins there.
            data += file.read(min(most - len(data), part.stop - at))
        at = start + len(data)
    return data


def _incomplete_bytes(data: bytes) -> int:
    """Bytes at the end that start a character of UTF-8 without its rest."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not a continuation
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if length > back else 0
    return 0


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def as_printed(text: str) -> str:
    r"""The text as a terminal shows it: of an overwritten line its last state, and no colours.

    >>> as_printed("a\n 10%\r 20%\r\nb\x1b[31mc")
    'a\n 20%\nbc'
    """
    lines = text.replace("\r\n", "\n").split("\n")
    shown = (next((part for part in reversed(line.split("\r")) if part), "") for line in lines)
    return _ESCAPES.sub("", "\n".join(shown))
