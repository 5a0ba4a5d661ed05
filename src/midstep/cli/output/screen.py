"""Output that never ends a training: a closed pipe or terminal only makes it quiet."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console
from rich.text import Text

__all__ = ["Screen"]


class Screen(Console):
    """A rich console that goes quiet when nobody reads any more.

    Args:
        stream: where to write; stdout when left out.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(file=stream, highlight=False, soft_wrap=True)

    def print_line(self, text: str, *, style: str | None = None) -> None:
        """One line, with no markup read into it."""
        try:
            self.print(Text(text, style=style or ""), soft_wrap=True)
        except OSError:  # the terminal was closed: EIO, not a broken pipe
            self.quiet = True

    def on_broken_pipe(self) -> None:
        """The reader is gone. Rich would exit here; a training has better things to do."""
        self.quiet = True
        silence_stdout()


def silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush finds no broken pipe."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, sys.stdout.fileno())
    finally:
        os.close(nothing)
