"""Runs with everything that a plot family draws, for the tests of figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from midstep.facts import FactsWriter

ALL = ("losses", "metrics", "latency", "recon", "codebook", "adversarial", "diffusion")


def array(values: Any) -> dict[str, Any]:
    """An array as the facts hold it."""
    numbers = np.asarray(values, np.float64)
    return {"shape": list(numbers.shape), "values": numbers.ravel().tolist()}


def epoch_record(epoch: int) -> dict[str, Any]:
    """An epoch record with something for every family; the loss of epoch 1 is NaN."""
    random = np.random.default_rng(epoch)
    images = random.random((3, 1, 4, 4))
    return {
        "epoch": epoch,
        "step": 10 * (epoch + 1),
        "train_loss": math.nan if epoch == 1 else 1 / (epoch + 1),
        "val_loss": 1.5 / (epoch + 1),
        "metrics": {
            "accuracy": 1 - 1 / (epoch + 2),
            "generator_loss": 0.7,
            "discriminator_loss": 0.6,
            "real_score": 0.5,
            "noise": 0.3,
        },
        "epoch_time_s": 2.0 + epoch,
        "throughput": 500.0,
        "codebook": {"counts": [[*random.multinomial(100, [0.25] * 4).tolist(), 0]]},
        "reconstructions": {
            "kind": "image",
            "samples": {"image": array(images)},
            "reconstructions": {"image": array(images + 0.1)},
        },
        "noise_levels": [{"signal_from": 0.0, "signal_to": 0.5, "samples": 4, "loss": 0.2}],
    }


def write_epochs(
    facts: FactsWriter, epochs: int, after: Callable[[int], object] = lambda _: None
) -> None:
    """Record some epochs; `after` is called with each."""
    for epoch in range(epochs):
        facts.event("on_epoch_end", **epoch_record(epoch))
        after(epoch)


def stored_run(folder: Path, epochs: int = 3) -> Path:
    """A finished run."""
    with FactsWriter(folder) as facts:
        facts.event("on_start", name="drawn")
        write_epochs(facts, epochs)
        facts.event("on_train_end", status="finished")
    return folder


def figures_of(folder: Path) -> dict[str, bytes]:
    """Names and bytes of the figures of a run."""
    return {path.name: path.read_bytes() for path in (folder / "figures").glob("*")}
