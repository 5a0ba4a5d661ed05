"""Sweeps of `tiny_cell`, for tests of plans, pools and routes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midstep.loops.sweep.plan import SweepPlan, write_plan
from midstep.loops.sweep.planning import CellConfig, make_plan
from midstep.server.sweeps.sweep_pool import PoolOptions

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, str(ROOT / "tests" / "tiny_cell.py"))
AXES = ("level=1,2", "seed=0,1")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MODULE = "midstep.core.moments"


def plan_of(
    overrides: Sequence[str] = AXES,
    *,
    modules: Sequence[str] = (MODULE,),
    data_files: Sequence[Path] = (),
    cells: dict[int, dict[str, Any]] | None = None,
    **config: Any,
) -> SweepPlan:
    """A plan; `config` is shared by all cells, `cells` adds to the config of some."""
    composed = iter(range(10_000))

    def compose(given: Sequence[str]) -> CellConfig:
        choices = {key: int(value) for key, _, value in (text.partition("=") for text in given)}
        more = (cells or {}).get(next(composed), {})
        return CellConfig(
            config={"steps": 20, **config, **choices, **more},
            modules=tuple(modules),
            data_files=tuple(data_files),
        )

    return make_plan(overrides, compose, name="tiny", at=NOW)


def sweep_in(root: Path, plan: SweepPlan | None = None, **config: Any) -> Path:
    """The folder of a sweep, made in `root`."""
    folder = root / "multiruns" / "exp_20260102T030405Z_tiny"
    folder.mkdir(parents=True)
    write_plan(folder, plan or plan_of(**config))
    return folder


def options(**changes: Any) -> PoolOptions:
    """Options of a pool whose cells are `tiny_cell`."""
    return PoolOptions(**{"command": COMMAND, **changes})


def steps_made(folder: Path) -> dict[str, list[int]]:
    """Every step that the cells ever made, by the end of their directory's name."""
    return {
        path.parent.name.rpartition("_")[2]: [int(line) for line in path.read_text().split()]
        for path in sorted(folder.glob("run_*/steps.txt"))
    }
