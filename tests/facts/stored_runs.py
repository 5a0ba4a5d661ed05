"""Small finished runs on disk, for the tests of lists, curves and deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from midstep.facts import FactsWriter, last_attempt


def write_run(
    folder: Path, *, epochs: int = 2, end: str | None = "finished", name: str = "", **config: Any
) -> str:
    """A small run with epochs of five steps each; gives back its id."""
    with FactsWriter(folder, attempt=last_attempt(folder) + 1) as facts:
        facts.event(
            "on_start",
            name=name or folder.name,
            config=config,
            seed=config.get("seed"),
            argv=["train.py", "--secret"],
            cwd="/home/ada",
        )
        for epoch in range(epochs):
            for step in range(5 * epoch + 1, 5 * epoch + 6):
                facts.log(step, loss=1 / step, lr=0.1)
            loss = 1 / (epoch + 1)
            facts.event("on_epoch_end", epoch=epoch, step=step, train_loss=loss, val_loss=loss)
        if end is not None:
            facts.event("on_train_end", status=end, step=5 * epochs)
        return facts.run_id
