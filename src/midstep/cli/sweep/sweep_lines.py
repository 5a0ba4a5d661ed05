"""The progress of a sweep in the terminal: a line per ended cell, and a redrawn one below."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from midstep.cli.output.text_format import format_number
from midstep.facts import read_lease

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.cli.output.screen import Screen
    from midstep.loops.sweep.cell_states import Cell
    from midstep.loops.sweep.plan import PlannedJob
    from midstep.server.sweeps.sweep_pool import SweepPool, What

REDRAW_S = 0.5
VALUE = "best_val_loss"


class SweepLines:
    """Prints what happens to the cells of a sweep.

    Args:
        screen: the terminal.
        folder: the sweep's folder.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        screen: Screen,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._screen, self._folder, self._clock = screen, folder, clock
        self._total = self._finished = self._failed = 0
        self._live: Live | None = None
        self._drawn_at = float("-inf")
        self._pool: SweepPool | None = None

    def begin(self, pool: SweepPool) -> None:
        """Show this pool, which does not run yet."""
        cells = pool.cells()
        self._pool, self._total = pool, len(cells)
        self._finished = sum(cell.is_kept for cell in cells)

    def changed(self, what: What, cell: Cell) -> None:
        """Print a line when a cell has ended or is adopted."""
        if what == "adopted":
            self._print(f"{format_cell(cell)} · still runs, and is waited for")
        if what != "ended":
            return
        if cell.state == "finished":
            self._finished += 1
        elif cell.state == "failed":
            self._failed += 1
        self._print(f"{self._finished} of {self._total} finished · {format_cell(cell)}")

    def waiting(self) -> None:
        """Redraw the line below, if this is a terminal."""
        if self._live is None or self._clock() - self._drawn_at < REDRAW_S:
            return
        self._drawn_at = self._clock()
        self._live.update(Text(self._format_now()), refresh=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw the line below while the block runs, if this is a terminal."""
        if not self._screen.is_terminal:
            yield
            return
        with Live(console=self._screen, auto_refresh=False, transient=True) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def _print(self, text: str) -> None:
        self._screen.print_line(text)

    def _format_now(self) -> str:
        pool = self._pool
        active = () if pool is None else pool.active
        words = [f"{self._finished} of {self._total} finished"]
        words += [f"{self._failed} failed"] if self._failed else []
        running = ", ".join(self._format_active(job) for job in active)
        words.append(f"{len(active)} running ({running})")
        is_stopping = pool is not None and pool.is_stopping
        return " · ".join(words) + (" · stopping, each takes a checkpoint" if is_stopping else "")

    def _format_active(self, job: PlannedJob) -> str:
        lease = read_lease(self._folder / job.run_dir) or {}
        step, total = lease.get("step"), lease.get("total_steps")
        return f"{job.job}: {100 * step / total:.0f} %" if step and total else f"{job.job}: starts"


def format_cell(cell: Cell) -> str:
    """A cell in one line: number, settings, state, best value or error.

    >>> from midstep.loops.sweep.cell_states import Cell
    >>> format_cell(Cell(job=2, choices={"phase1.trainer.seed": "1"}, state="missing"))
    'cell 2 · seed=1 · missing'
    """
    words = [f"cell {cell.job}", format_choices(cell.choices), format_cell_state(cell)]
    if VALUE in cell.values:
        words.append(f"best validation loss {format_number(cell.values[VALUE])}")
    if cell.error is not None:
        words.append(" ".join(cell.error.split()))
    return " · ".join(words)


def format_cell_state(cell: Cell) -> str:
    """The state, with the share that is done, and with what has changed since."""
    share = (
        "" if cell.share is None or cell.state == "finished" else f" at {100 * cell.share:.0f} %"
    )
    change = {"code": ", same config, other code", "data": ", same config, other data"}
    return f"{cell.state}{share}{change.get(cell.change or '', '')}"


def format_choices(choices: Mapping[str, str]) -> str:
    """The settings of a cell with the last parts of their keys."""
    from midstep.loops.sweep.axes import SweepAxis

    return " ".join(
        f"{SweepAxis(key=key, values=(value,)).label}={value}" for key, value in choices.items()
    )


def count_states(cells: Sequence[Cell]) -> str:
    """How many cells are in each state, the finished ones first."""
    order = ("finished", "running", "stopped", "killed", "failed", "missing")
    counts = {state: sum(cell.state == state for cell in cells) for state in order}
    words = [f"{count} {state}" for state, count in counts.items() if count or state == "finished"]
    changed = sum(cell.state == "finished" and not cell.is_kept for cell in cells)
    words += [f"{changed} of the finished with other code or data"] if changed else []
    return f"{len(cells)} cells: {', '.join(words)}"
