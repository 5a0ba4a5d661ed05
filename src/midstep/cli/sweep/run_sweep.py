"""`midstep train -m` and `midstep sweep run`: run the open cells of a sweep in this terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.sweep.sweep_lines import SweepLines, count_states, format_cell

if TYPE_CHECKING:
    from midstep.loops.sweep.cell_states import Cell
    from midstep.server.sweeps.sweep_pool import PoolOptions

Jobs = Annotated[int, typer.Option("--jobs", help="With -m: most runs at a time.")]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="With -m: also run cells that failed.")
]
AcceptCode = Annotated[
    bool,
    typer.Option("--accept-code", help="With -m: keep cells whose code has changed since."),
]
Detach = Annotated[
    bool,
    typer.Option("--detach", help="With -m: Ctrl-C ends this command alone, not its cells."),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", help="With -m: threads of each run; the cores are shared if not."),
]


def run_multirun(
    overrides: Sequence[str],
    options: PoolOptions,
    *,
    config_dir: Path | None,
    root: Path,
    is_new: bool,
    dry_run: bool,
) -> None:
    """Plan a sweep, or continue the one with the same axes, and run its open cells."""
    from midstep.core.files.storage import make_folder
    from midstep.loops.sweep.composed_cells import plan_sweep
    from midstep.loops.sweep.plan import PLAN, read_plan, write_plan
    from midstep.loops.sweep.planning import continue_plan
    from midstep.loops.sweep.sweep_folders import find_same, new_sweep_folder
    from midstep.server.sweeps.sweep_pool import hold_sweep

    now = datetime.now(UTC)
    requested = plan_sweep(overrides, at=now, config_dir=config_dir, root=root)
    folder, earlier = requested.folder, None
    if folder is not None and (folder / PLAN).is_file():
        earlier = read_plan(folder)
    elif folder is None and not is_new:
        folder, earlier = find_same(root, requested.plan) or (None, None)
    screen = Screen()
    if dry_run:
        plan = requested.plan if earlier is None else continue_plan(earlier, requested.plan)
        _print_cells(screen, None if earlier is None else folder, plan)
        return
    if folder is None:
        folder = new_sweep_folder(root, requested.plan.name, now)
    make_folder(folder, mode=0o700)
    with hold_sweep(folder):
        plan = requested.plan
        if (folder / PLAN).is_file():  # read again: only now no other process changes it
            plan = continue_plan(read_plan(folder), plan)
        write_plan(folder, plan)
        configs = {job.config_hash for job in requested.plan.jobs}
        only = tuple(job.job for job in plan.jobs if job.config_hash in configs)
        run_held(folder, replace(options, only=only), screen)


def run(
    sweep: Annotated[str, typer.Argument(help="Folder, id or name of the sweep.")],
    jobs: Annotated[int, typer.Option(help="Most cells at a time.")] = 2,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Also run cells that failed.")
    ] = False,
    accept_code: Annotated[
        bool, typer.Option("--accept-code", help="Keep cells whose code has changed since.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Ctrl-C ends this command alone, not its cells.")
    ] = False,
    cell: Annotated[list[int] | None, typer.Option(help="Only this cell; may be repeated.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of each cell; the cores are shared if left out.")
    ] = None,
    root: Annotated[Path, typer.Option(help="Folder of the sweeps.")] = Path("outputs/multiruns"),
) -> None:
    """Run the open cells: missing ones are trained, killed and stopped ones resumed."""
    from midstep.loops.sweep.sweep_folders import find_sweep
    from midstep.server.sweeps.sweep_pool import PoolOptions, hold_sweep

    folder = find_sweep(sweep, root)
    options = PoolOptions(
        jobs=jobs,
        retry_failed=retry_failed or bool(cell),
        accept_code=accept_code,
        detach=detach,
        only=tuple(cell) if cell else None,
        threads=threads,
    )
    with hold_sweep(folder):
        run_held(folder, options, Screen())


def run_held(folder: Path, options: PoolOptions, screen: Screen) -> None:
    """Run the open cells of a sweep that this process holds, and print how it went.

    Raises:
        typer.Exit: with code 1, if a cell failed or was killed.
    """
    from midstep.server.sweeps.sweep_pool import SweepPool
    from midstep.session.signals import GracefulStop

    screen.print_line(f"sweep {folder}")
    lines = SweepLines(screen, folder)
    pool = SweepPool(folder, options, on_change=lines.changed, on_wait=lines.waiting)
    lines.begin(pool)
    with ExitStack() as stack:
        stack.enter_context(GracefulStop(lambda _: pool.request_stop()))
        stack.enter_context(lines.shown())
        cells = pool.run()
    screen.print_line(count_states(cells), style="bold")
    for hint in _hints(folder, cells, is_detached=options.detach and pool.is_stopping):
        screen.print_line(hint)
    if not pool.is_stopping and any(cell.state in ("failed", "killed") for cell in cells):
        raise typer.Exit(1)


def status(
    sweep: Annotated[str, typer.Argument(help="Folder, id or name of the sweep.")],
    root: Annotated[Path, typer.Option(help="Folder of the sweeps.")] = Path("outputs/multiruns"),
    as_json: AsJson = False,
) -> None:
    """List the cells of a sweep: finished, running, killed, failed, and those that are missing."""
    from midstep.loops.sweep.cell_states import list_cells, pool_holder
    from midstep.loops.sweep.plan import read_plan
    from midstep.loops.sweep.sweep_folders import find_sweep

    folder = find_sweep(sweep, root)
    plan = read_plan(folder)
    cells = list_cells(folder, plan)
    if as_json:
        print_json(
            {
                "id": plan.id,
                "name": plan.name,
                "directory": str(folder),
                "pool": pool_holder(folder),
                "axes": [{"key": axis.key, "values": list(axis.values)} for axis in plan.axes],
                "cells": [cell_json(cell) for cell in cells],
            }
        )
        return
    screen = Screen()
    for cell in cells:
        screen.print_line(format_cell(cell))
    screen.print_line(count_states(cells), style="bold")
    for hint in _hints(folder, cells):
        screen.print_line(hint)


def list_all(
    root: Annotated[Path, typer.Option(help="Folder of the sweeps.")] = Path("outputs/multiruns"),
) -> None:
    """List the sweeps of a folder, the newest first."""
    from midstep.core.errors import ConfigError, FormatError
    from midstep.loops.sweep.cell_states import list_cells
    from midstep.loops.sweep.plan import read_plan
    from midstep.loops.sweep.sweep_folders import list_sweeps

    screen = Screen()
    folders = list_sweeps(root)
    for folder in folders:
        try:
            plan = read_plan(folder)
        except (ConfigError, FormatError) as error:
            screen.print_line(f"{folder.name}  damaged: {error}")
            continue
        screen.print_line(f"{plan.id}  {folder.name}  {count_states(list_cells(folder, plan))}")
    if not folders:
        screen.print_line(f"no sweeps in {root}; start one with: midstep train -m trainer.seed=0,1")


def stop(
    sweep: Annotated[str, typer.Argument(help="Folder, id or name of the sweep.")],
    cell: Annotated[int | None, typer.Argument(help="Only this cell.")] = None,
    root: Annotated[Path, typer.Option(help="Folder of the sweeps.")] = Path("outputs/multiruns"),
) -> None:
    """Stop a sweep, or one cell of it. Each running cell takes a checkpoint and can be resumed."""
    from midstep.loops.sweep.sweep_folders import find_sweep
    from midstep.server.sweeps.sweep_control import stop_cell, stop_pool

    folder = find_sweep(sweep, root)
    if cell is None:
        Screen().print_line(f"sent SIGTERM to process {stop_pool(folder)}, which stops its cells")
    else:
        Screen().print_line(f"cell {stop_cell(folder, cell)} takes a checkpoint and stops")


def cell_json(cell: Cell) -> dict[str, Any]:
    """A cell as `--json` prints it."""
    return {**vars(cell), "open": cell.is_open(), "kept": cell.is_kept}


def _print_cells(screen: Screen, folder: Path | None, plan: Any) -> None:
    """The cells of a plan that is not run, for `--dry-run`."""
    from midstep.loops.sweep.cell_states import list_cells

    where = "a new sweep" if folder is None else f"continues {folder}"
    cells = list_cells(Path("/nonexistent") if folder is None else folder, plan)
    for cell in cells:
        screen.print_line(f"{format_cell(cell)} · {cell.address[:8]}")
    screen.print_line(f"{where} · {count_states(cells)}", style="bold")


def _hints(folder: Path, cells: Sequence[Cell], *, is_detached: bool = False) -> list[str]:
    """What can be done next, for each kind of cell that is not finished."""
    hints = []
    if is_detached:
        hints.append(f"running cells continue; look with: midstep sweep status {folder}")
    if any(cell.is_open() for cell in cells) and not is_detached:
        hints.append(f"run the open cells with: midstep sweep run {folder}")
    if any(cell.state == "failed" for cell in cells):
        hints.append(f"run failed cells again with: midstep sweep run {folder} --retry-failed")
    if any(cell.change == "code" for cell in cells):
        hints.append("keep cells with other code as they are by adding --accept-code")
    return hints
