"""Every condition over every seed, each an ordinary run whose facts are read afterwards."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstep.facts import FactsReader, end_state
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import CONDITIONS, BclConfig, Condition

__all__ = ["Cell", "health_facts", "train_all"]

WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One training of the study."""

    condition: Condition
    seed: int
    steps: int
    folder: Path
    """Where the runs of the study lie."""

    @property
    def run_dir(self) -> Path:
        """Named after the settings, so that a finished one is found again."""
        return self.folder / f"{self.condition}-seed{self.seed}-{self.steps}"

    @property
    def is_finished(self) -> bool:
        """Whether its facts say so."""
        return self.run_dir.is_dir() and end_state(self.run_dir).state == "finished"


def train_all(folder: Path, seeds: list[int], steps: int) -> list[Cell]:
    """Train what is not finished yet, two at a time; gives all cells."""
    cells = [
        Cell(condition=condition, seed=seed, steps=steps, folder=folder)
        for condition in CONDITIONS
        for seed in seeds
    ]
    missing = [cell for cell in cells if not cell.is_finished]
    with ProcessPoolExecutor(WORKERS) as pool:
        for cell in pool.map(_train, missing):
            print(f"trained {cell.run_dir.name}", flush=True)  # noqa: T201 - progress of a script
    return cells


def _train(cell: Cell) -> Cell:
    import torch

    from midstep.session import Run

    torch.set_num_threads(1)
    training = BclTraining(BclConfig(condition=cell.condition, seed=cell.seed, steps=cell.steps))
    with Run(
        name=cell.condition,
        save_dir=cell.folder,
        run_name=cell.run_dir.name,
        config=training.settings,
        seed=cell.seed,
        total_steps=cell.steps,
        existing="continue",  # one that was cut short is trained again, as a further attempt
    ) as run:
        training.train(run)
    return cell


def health_facts(run_dir: Path) -> list[dict[str, Any]]:
    """The examinations of the last attempt, oldest first."""
    events = FactsReader(run_dir).events()
    attempt = max(event["attempt"] for event in events)
    return [
        event
        for event in events
        if event.get("kind") == "feature_health" and event["attempt"] == attempt
    ]
