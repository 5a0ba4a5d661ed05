"""Texts of runs and files as a terminal may show them: the one place where they are escaped.

A name in a run directory may come from anybody. Escape sequences in it could move the cursor or
write to the clipboard, and direction marks could show another name than there is.
"""

from __future__ import annotations

import logging
import unicodedata
from typing import TextIO

_KEPT = frozenset("\n\t\u200c\u200d")
"""The last two join letters in several scripts, and pictures of emoji."""


def visible(text: str) -> str:
    r"""The text with every character that is not visible by itself as `\uXXXX`.

    JSON stays JSON: the escapes are its own, and outside of strings it has no such characters.

    >>> visible("a\x1b[31mb\u202ec"), visible("Ünïcode → 字")
    ('a\\u001b[31mb\\u202ec', 'Ünïcode → 字')
    """
    if text.isprintable():  # nearly always
        return text
    # Each character once: a console may be millions of one that is not printable.
    return text.translate({ord(character): _escape(character) for character in set(text)})


def one_line(text: str) -> str:
    r"""`visible`, with line breaks and tabs escaped too: a name must not begin a line of its own.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(character: str) -> str:
    if character.isprintable() or character in _KEPT or unicodedata.category(character) == "Zs":
        return character
    number = ord(character)
    if number > 0xFFFF:  # as JSON writes it: two surrogates
        number -= 0x10000
        return f"\\u{0xD800 + (number >> 10):04x}\\u{0xDC00 + (number & 0x3FF):04x}"
    return f"\\u{number:04x}"


class VisibleStream:
    """A text file that escapes what is written to it; for code that writes to any file.

    Args:
        stream: the file.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the escaped text."""
        return self._stream.write(visible(text))


class _VisibleFormatter(logging.Formatter):
    """Escapes messages: they name files and runs."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def escape_log_messages() -> None:
    """Escape what `logging` prints to stderr where nobody has configured it otherwise."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleFormatter())
