"""`python -m midstep.live.sweep_process`: run the open cells of a sweep, as stdin requests.

The page starts it. It does what `midstep sweep run` does in a terminal.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.core import strict_json
from midstep.core.errors import MidstepError

if TYPE_CHECKING:
    from midstep.loops.sweep.cell_states import Cell


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """Which cells this process runs."""

    sweep_dir: str
    """Folder of the sweep, with its plan."""
    jobs: int
    """Most cells at a time."""
    retry_failed: bool
    """Also run cells that failed."""
    only: list[int] | None
    """Only these cells; None for all."""


def main() -> int:
    """Run the cells that stdin requests; returns the exit code."""
    request = SweepRequest(**strict_json.loads(sys.stdin.buffer.read()))
    try:
        _run(request)
    except MidstepError as error:
        sys.stderr.write(f"midstep: {' '.join(str(error).split())}\n")
        return 2
    return 0


def _run(request: SweepRequest) -> None:
    from midstep.server.sweeps.sweep_pool import PoolOptions, SweepPool, hold_sweep
    from midstep.session.signals import GracefulStop

    folder = Path(request.sweep_dir)
    options = PoolOptions(
        jobs=request.jobs,
        retry_failed=request.retry_failed,
        only=None if request.only is None else tuple(request.only),
    )
    with hold_sweep(folder):
        pool = SweepPool(folder, options, on_change=_print_change)
        with GracefulStop(lambda _: pool.request_stop()):
            pool.run()


def _print_change(what: str, cell: Cell) -> None:
    """Print a line to the console file of the sweep."""
    error = "" if cell.error is None else f": {cell.error}"
    sys.stdout.write(f"cell {cell.job} {what}, {cell.state}{error}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
