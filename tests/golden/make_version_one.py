"""Writes `version_one/`: two runs as the original system left them. Never run it again.

python -m tests.golden.make_version_one

`run_…_ae` has events with the whole histories in each, a metric that is born at epoch 7, a loss
that is NaN once, and a `scalars.csv` whose late rows are longer than its head line.
`run_…_table` has the table alone.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "version_one"
EPOCHS = 10
BORN = 7
NAN_AT = 3


def main() -> None:
    """Write both runs."""
    run = FOLDER / "run_20250301_120000_ae"
    (run / "facts").mkdir(parents=True)
    (run / "facts" / "events.jsonl").write_text("".join(_lines(run.name)))
    (run / "facts" / "scalars.csv").write_text("".join(_rows()))
    (run / ".hydra").mkdir()
    (run / ".hydra" / "overrides.yaml").write_text("- loop=ae\n- phase1.trainer.seed=3\n")
    (run / ".hydra" / "config.yaml").write_text(
        "loop:\n  name: ae\nphase1:\n  encoder:\n    name: mlp\n  decoder:\n    name: mlp\n"
        "  latent_space:\n    name: vq\n    latent_dim: 32\n    codebook_size: 512\n"
        "  trainer:\n    seed: 3\ndata:\n  name: h5\n"
    )
    table = FOLDER / "run_20250301_130000_table"
    (table / "facts").mkdir(parents=True)
    (table / "facts" / "scalars.csv").write_text("".join(_rows()))


def _loss(epoch: int) -> float:
    return math.nan if epoch == NAN_AT else 1.0 / (epoch + 1)


def _lines(name: str) -> list[str]:
    def line(moment: str, **fields: Any) -> str:
        head = {"schema_version": 1, "moment": moment, "run_dir": f"outputs/runs/{name}"}
        return json.dumps(head | fields | {"meta": {"loop": "ae", "device": "cpu"}}) + "\n"

    lines = [line("on_start", epoch=None, step=0, split=None, metrics={})]
    train: list[float] = []
    for epoch in range(EPOCHS):
        train.append(_loss(epoch))
        metrics = {"recon": 2 * _loss(epoch)} | ({"late": float(epoch)} if epoch >= BORN else {})
        lines.append(
            line(
                "on_epoch_end",
                epoch=epoch,
                step=10 * (epoch + 1),
                split="train",
                train_loss=_loss(epoch),
                val_loss=1.5 / (epoch + 1),
                metrics=metrics,
                epoch_time_s=2.0,
                total_time_s=2.0 * (epoch + 1),
                throughput=500.0,
                history_train_loss=list(train),
            )
        )
    lines.append(line("on_test_end", epoch=EPOCHS - 1, split="test", metrics={"loss": 0.2}))
    lines.append(line("on_train_end", epoch=EPOCHS - 1, step=100, total_time_s=20.0, metrics={}))
    return lines


def _rows() -> list[str]:
    columns = "epoch,split,train_loss,val_loss,epoch_time_s,throughput,max_memory_mib,metric_recon"
    rows = [columns + "\n"]
    for epoch in range(EPOCHS):
        late = f",{float(epoch)}" if epoch >= BORN else ""
        loss = _loss(epoch)
        rows.append(f"{epoch},train,{loss},{1.5 / (epoch + 1)},2.0,500.0,,{2 * loss}{late}\n")
    return rows


if __name__ == "__main__":
    main()
