"""Output to the terminal. If it is closed, the command continues without printing."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import IO, Annotated, Any, TextIO, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from midstep.cli.output.terminal_escape import visible
from midstep.cli.output.text_format import align_columns
from midstep.core import strict_json
from midstep.core.streams.stream_tap import OwnStream

AsJson = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


class Screen(Console):
    """A rich console that stops printing when the pipe or the terminal is closed.

    Args:
        stream: where to write; stdout when left out.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(file=stream, highlight=False, soft_wrap=True)

    # Output of a command is not output of the training that runs in the same process.
    @property
    def file(self) -> IO[str]:
        """Where it prints."""
        return cast("IO[str]", OwnStream(super().file))

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of anything that is printed, with their texts escaped."""
        for segment in super().render(renderable, options):
            if segment.control is None and not segment.text.isprintable():
                yield Segment(visible(segment.text), segment.style)
            else:
                yield segment

    def print_line(self, text: str, *, style: str | None = None) -> None:
        """Print one line. Square brackets in it are not markup."""
        try:
            self.print(Text(text, style=style or ""), soft_wrap=True)
        except OSError:  # a closed terminal raises EIO, not a broken pipe
            self.quiet = True

    def print_table(self, rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> None:
        """Print rows with aligned columns; those in `right` are aligned to the right."""
        for line in align_columns(rows, right=right):
            self.print_line(line)

    def on_broken_pipe(self) -> None:
        """Stop printing when the reader has closed the pipe. Rich would end the process here."""
        self.quiet = True
        silence_stdout()


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    typer.echo(visible(strict_json.dumps(value)))


def silence_stdout() -> None:
    """Redirect stdout to /dev/null, so that the flush at exit raises no BrokenPipeError."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, sys.stdout.fileno())
    finally:
        os.close(devnull)
