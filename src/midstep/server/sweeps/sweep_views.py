"""Sweeps as the page shows them: cells from the index of runs, effects, values to choose from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, FormatError
from midstep.loops.sweep.cell_states import Cell, list_cells, pool_holder
from midstep.loops.sweep.effects import (
    FEWEST_SEEDS,
    Effect,
    axis_effects,
    held_comparisons,
    lower_is_better,
)
from midstep.loops.sweep.plan import PlannedJob, SweepPlan, read_plan
from midstep.loops.sweep.sweep_folders import list_sweeps
from midstep.server.problems import not_found

if TYPE_CHECKING:
    from midstep.facts.index.run_row import RunRow
    from midstep.server.runs.run_catalog import RootCatalog

FIRST_VALUE = "best_val_loss"
MOST_COMPARED = 1_000
"""Cells up to which every two levels are compared; beyond that the page shows effects alone."""


class SweepView:
    """One sweep of an outputs folder.

    Args:
        catalog: the runs of the outputs folder.
        folder: the sweep's folder.
        plan: its plan.
    """

    def __init__(self, catalog: RootCatalog, folder: Path, plan: SweepPlan) -> None:
        self._catalog, self.folder, self.plan = catalog, folder, plan
        self.directory = folder.relative_to(catalog.index.root).as_posix()

    def cells(self) -> list[Cell]:
        """The cells as they are now."""
        return list_cells(self.folder, self.plan, self._row)

    def summary(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """The sweep as `SweepRowOut`."""
        return {
            "id": self.plan.id,
            "name": self.plan.name,
            "directory": self.directory,
            "created": self.plan.created,
            "cells": len(cells),
            "states": dict(Counter(cell.state for cell in cells)),
            "open": sum(cell.is_open() for cell in cells),
            "pool": pool_holder(self.folder) is not None,
        }

    def detail(self, value: str | None) -> dict[str, Any]:
        """The sweep as `SweepOut`, without who may start it."""
        axes, cells = self.plan.axes, self.cells()
        names = _value_names(cells)
        value = value if value is not None and value in names else names[0]
        compared = held_comparisons(axes, cells, value) if len(cells) <= MOST_COMPARED else []
        return {
            **self.summary(cells),
            "axes": [
                {
                    "key": axis.key,
                    "label": axis.label,
                    "values": list(axis.values),
                    "is_seed": axis.is_seed,
                }
                for axis in axes
            ],
            "fixed": list(self.plan.fixed),
            "value": value,
            "value_names": names,
            "lower_is_better": lower_is_better(value),
            "grid": [_cell_json(cell, value) for cell in cells],
            "effects": [_effect_json(each) for each in axis_effects(axes, cells, value)],
            "comparisons": [_effect_json(each) for each in compared],
            "fewest_seeds": FEWEST_SEEDS,
        }

    def _row(self, job: PlannedJob) -> RunRow | None:
        row = self._catalog.index.row(job.run_id)
        # A copy of the run elsewhere has the same id, but is not a cell of this sweep.
        return row if row and row.directory == f"{self.directory}/{job.run_dir}" else None


def list_views(catalog: RootCatalog) -> tuple[list[SweepView], list[str]]:
    """The sweeps of an outputs folder, the newest first, and the folders of damaged plans."""
    root = catalog.index.root
    views, damaged = [], []
    for folder in list_sweeps(root):
        try:
            views.append(SweepView(catalog, folder, read_plan(folder)))
        except (ConfigError, FormatError):
            damaged.append(folder.relative_to(root).as_posix())
    return views, damaged


def find_view(catalog: RootCatalog, sweep_id: str) -> SweepView:
    """The sweep with an id; a 404 if no plan has it. The id is never joined to a path."""
    for view in list_views(catalog)[0]:
        if view.plan.id == sweep_id:
            return view
    raise not_found()


def _value_names(cells: Sequence[Cell]) -> list[str]:
    """The names of all values; the best validation loss comes first."""
    names = {name: None for cell in cells for name in cell.values}
    return [FIRST_VALUE, *(name for name in names if name != FIRST_VALUE)]


def _cell_json(cell: Cell, value: str) -> dict[str, Any]:
    return {
        "job": cell.job,
        "choices": dict(cell.choices),
        "state": cell.state,
        "run_state": cell.run_state,
        "change": cell.change,
        "open": cell.is_open(),
        "share": cell.share,
        "step": cell.step,
        "epoch": cell.epoch,
        "value": cell.values.get(value),
        "values": dict(cell.values),
        "error": cell.error,
        "address": cell.address,
        "run_id": cell.run_id,
        "name": cell.run_dir,
    }


def _effect_json(effect: Effect) -> dict[str, Any]:
    return {
        "axis": effect.axis,
        "level": effect.level,
        "against": effect.against,
        "held": dict(effect.held),
        "pairs": [vars(pair) for pair in effect.pairs],
        "mean": effect.mean,
        "low": effect.low,
        "high": effect.high,
        "seeds": effect.seeds,
        "enough": effect.is_enough,
        "better": effect.better,
    }
