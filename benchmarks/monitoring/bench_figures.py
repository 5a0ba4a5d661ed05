"""What figures cost a training: the share of an epoch of 20 s, and short epochs that are thinned.

`make bench ARGS=figures`, about five minutes. The training is a loop of small matrix products that
also writes facts; it runs in the main thread, as a training does, beside the thread that draws.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from midstep.facts import FactsWriter
from midstep.monitoring import FigureSession, LoggingConfig, handle_event
from midstep.monitoring.facts_payload import FactsPayloads

__all__ = ["figures"]

BAR_SHARE = 0.01
LONG_EPOCH_S = 20.0
EPOCHS = 6
SHORT_EPOCH_S = 0.05
SHORT_EPOCHS = 400
FAMILIES = ("losses", "metrics", "latency", "recon", "codebook")


def _record(epoch: int) -> dict[str, Any]:
    """An epoch record with 28 × 28 images and a codebook of 512 codes."""
    rng = np.random.default_rng(epoch)

    def images() -> dict[str, Any]:
        values = rng.random(4 * 28 * 28)
        return {"shape": [4, 1, 28, 28], "values": [float(f"{each:.4g}") for each in values]}

    return {
        "epoch": epoch,
        "step": 100 * (epoch + 1),
        "train_loss": 1 / (epoch + 1),
        "val_loss": 1.2 / (epoch + 1),
        "metrics": {"l1": 0.5 / (epoch + 1), "accuracy": 1 - 1 / (epoch + 2)},
        "epoch_time_s": 1.0 + random.random(),
        "throughput": 500.0,
        "codebook": {"counts": [rng.integers(0, 9, 512).tolist()]},
        "reconstructions": {
            "kind": "image",
            "samples": {"image": images()},
            "reconstructions": {"image": images()},
        },
    }


def _train(epochs: int, epoch_s: float, config: LoggingConfig) -> tuple[float, FigureSession]:
    """Seconds for a fixed amount of work, and the session; an epoch takes about `epoch_s`."""
    weights = np.random.default_rng(0).random((64, 64))
    records = [_record(epoch) for epoch in range(epochs)]
    with tempfile.TemporaryDirectory() as folder, FactsWriter(Path(folder) / "run") as facts:
        with FigureSession(facts.run_dir, config, FAMILIES, facts.event) as session:
            steps = _steps_in(epoch_s, weights)
            began = time.perf_counter()
            for record in records:
                _work(steps, weights)
                facts.event("on_epoch_end", **record)
                session.on_epoch_end()
            seconds = time.perf_counter() - began
        return seconds, session


def _work(steps: int, weights: np.ndarray[Any, Any]) -> None:
    for _ in range(steps):
        np.tanh(weights @ weights)


def _steps_in(seconds: float, weights: np.ndarray[Any, Any]) -> int:
    _work(200, weights)
    began = time.perf_counter()
    _work(2000, weights)
    return max(1, int(2000 * seconds / (time.perf_counter() - began)))


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    yield from _cost_of_figures()
    yield from _shares("epochs of 20 s", EPOCHS, LONG_EPOCH_S)
    yield from _shares("epochs of 0.05 s", SHORT_EPOCHS, SHORT_EPOCH_S)


def _cost_of_figures() -> Iterator[Figure]:
    """Processor time of each family after 200 epochs."""
    with tempfile.TemporaryDirectory() as folder:
        with FactsWriter(folder) as facts:
            for epoch in range(200):
                facts.event("on_epoch_end", **_record(epoch))
        payloads = FactsPayloads(folder)
        payloads.refresh()
        payload = payloads.payload() or {}
        for family in FAMILIES:
            handle_event(LoggingConfig(), [family], "on_epoch_end", payload)
            times = []
            for _ in range(9):
                began = time.process_time()
                handle_event(LoggingConfig(), [family], "on_epoch_end", payload)
                times.append(1000 * (time.process_time() - began))
            yield Figure(
                name=f"figure of {family} after 200 epochs",
                value=statistics.median(times),
                unit="ms of CPU",
                low=min(times),
                high=max(times),
            )


def _shares(words: str, epochs: int, epoch_s: float) -> Iterator[Figure]:
    """The share of the training's time that the thread used, and what was drawn of it."""
    seconds, session = _train(epochs, epoch_s, LoggingConfig(moments=("on_epoch_end",)))
    counts = session.counts
    # The last epoch is drawn after the training, whatever it costs.
    in_training = counts.cost_s - counts.end_cost_s
    yield Figure(
        name=f"figures beside {words}: share of the training's time",
        value=100 * in_training / seconds,
        unit="%",
        bar=100 * BAR_SHARE,
        note=f"{len(counts.drawn_epochs)} of {epochs} epochs drawn, the last among them: "
        f"{counts.drawn_epochs[-1] == epochs - 1}",
    )
