"""`midstep runs console`: what a run printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from midstep.cli.output.terminal_escape import visible
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run
from midstep.core.errors import ConfigError

POLL_EVERY_S = 0.5
TAIL_BYTES = 256 << 10
"""The last lines are looked for in so many bytes."""
MOST_SHOWN = 8 << 20
"""With --all the first part and so many of the last bytes are shown."""


def console(
    run: RunName,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last to show.")
    ] = 40,
    everything: Annotated[
        bool, typer.Option("--all", help="All that is kept: first part and last parts.")
    ] = False,
    stop: Annotated[
        str | None, typer.Option(help="The last lines before this stop, by its id.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the run has ended.")
    ] = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Print what a run has printed. Of an overwritten line its last state is shown."""
    directory = find_run(run, save_dir)
    if stop is not None:
        _print(_lines_before(directory, stop, lines))
        return
    text, end = ("", _print_all(directory)) if everything else _last_lines(directory, lines)
    _print(text)
    if not (end or follow):
        typer.echo("nothing was printed, or it was not kept", err=True)
    try:
        for more in _new_text(directory, end) if follow else ():
            _print(more)
    except KeyboardInterrupt:  # Ctrl-C is the normal way to leave
        return


def _print(text: str) -> None:
    sys.stdout.write(visible(text))
    sys.stdout.flush()


def _last_lines(directory: Path, lines: int) -> tuple[str, int]:
    from midstep.facts.read.console_text import as_printed, read_console

    read = read_console(directory, tail=TAIL_BYTES)
    shown = as_printed(read.text).splitlines(keepends=True)
    return "".join(shown[-lines:] if lines else []), read.end


def _lines_before(directory: Path, stop: str, lines: int) -> str:
    from midstep.facts.format.stop_files import StopName
    from midstep.facts.read.stop_evidence import read_stop

    name = StopName.parse(stop)
    kept = None if name is None else read_stop(directory, name)
    data = None if kept is None else kept.read("console.txt")
    if data is None:
        raise ConfigError(f"no console of stop {stop} was kept; midstep runs stops lists the stops")
    shown = data.decode("utf-8", "replace").splitlines(keepends=True)
    return "".join(shown[-lines:] if lines else [])


def _print_all(directory: Path) -> int:
    """Print all parts, with a line where some are missing; returns the end."""
    from midstep.facts.read.console_text import as_printed, read_console

    read = read_console(directory, after=0)
    end = 0
    while read.text and read.end > end:
        if read.start > end:
            _print(f"… {read.start - end:,} bytes are not shown\n")
        _print(as_printed(read.text))
        end = read.end
        # What a process wrote into its console file itself has no bound.
        read = read_console(directory, after=max(end, read.size - MOST_SHOWN))
    return end


def _new_text(directory: Path, end: int) -> Iterator[str]:
    """What is printed from now on, until the run has ended."""
    from midstep.facts import end_state
    from midstep.facts.read.console_text import as_printed, read_console

    while True:
        # The state first: what is printed before the end is then read below.
        is_live = end_state(directory).state in ("running", "not responding")
        read = read_console(directory, after=end)
        if read.text and read.end > end:
            yield as_printed(read.text)
            end = read.end
        elif not is_live:
            return
        else:
            time.sleep(POLL_EVERY_S)
