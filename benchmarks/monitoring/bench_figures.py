"""What figures add to a training: to epochs of 20 s, and to short epochs that are thinned.

`make bench ARGS=figures`, about twelve minutes. The training is a loop of small matrix products
that also writes facts; it runs in the main thread, as a training does, beside the thread that
draws. The same work is timed with a `FigureSession`, and before and after it without one. Each such
group is a process of its own, so that the import of matplotlib counts every time.

Time is scaled by ten: an epoch of 20 s takes 2 s, and the thread may use ten times the share and
looks ten times as often. So it draws as much in an epoch as in one of 20 s. The seconds that it
adds are then compared with ten times the time of the work.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, spread_of
from midstep.facts import FactsWriter
from midstep.monitoring import FigureSession, LoggingConfig, figure_session, handle_event
from midstep.monitoring.facts_payload import FactsPayloads

__all__ = ["figures"]

BAR_SHARE = 0.01
SCALE = 10
LONG_EPOCH_S, LONG_EPOCHS = 20.0, 8
SHORT_EPOCH_S, SHORT_EPOCHS = 0.5, 400
PROCESSES = 6
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


@dataclass(frozen=True, kw_only=True)
class Block:
    """What a fixed amount of work took."""

    seconds: float
    cpu_s: float
    """Processor time of all threads."""
    drawn: int
    """Epochs that were drawn meanwhile."""


def _block(*, draws: bool, epochs: int, steps: int) -> Block:
    """A training, with figures or without."""
    config = LoggingConfig(moments=("on_epoch_end",), make_plots=draws)
    weights = np.random.default_rng(0).random((64, 64))
    records = [_record(epoch) for epoch in range(epochs)]
    share = SCALE * figure_session.SHARE
    with (
        tempfile.TemporaryDirectory() as folder,
        FactsWriter(Path(folder) / "run") as facts,
        FigureSession(facts.run_dir, config, FAMILIES, facts.event, share=share) as session,
    ):
        began, cpu_began = time.perf_counter(), time.process_time()
        for record in records:
            _work(steps, weights)
            facts.event("on_epoch_end", **record)
            session.on_epoch_end()
        block = Block(
            seconds=time.perf_counter() - began,
            cpu_s=time.process_time() - cpu_began,
            drawn=len(session.counts.drawn_epochs),
        )
    # The last epoch is drawn after the training, whatever it costs.
    if draws and session.counts.drawn_epochs[-1] != epochs - 1:
        raise RuntimeError("the last epoch was not drawn")
    return block


def _added(epochs: int, epoch_s: float) -> dict[str, float]:
    """What figures add to a block, in percent of the time of those before and after it."""
    figure_session.POLL_S /= SCALE
    steps = _steps_in(epoch_s / SCALE, np.random.default_rng(0).random((64, 64)))
    before, drawing, after = (
        _block(draws=draws, epochs=epochs, steps=steps) for draws in (False, True, False)
    )

    plain_s = (before.seconds + after.seconds) / 2
    added_s = {
        "time": drawing.seconds - plain_s,
        "cpu": drawing.cpu_s - (before.cpu_s + after.cpu_s) / 2,
    }
    percents = {what: 100 * each / (SCALE * plain_s) for what, each in added_s.items()}
    return {**percents, "drawn": drawing.drawn}


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
    yield from _shares(LONG_EPOCHS, LONG_EPOCH_S)
    yield from _shares(SHORT_EPOCHS, SHORT_EPOCH_S)


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


def _shares(epochs: int, epoch_s: float) -> Iterator[Figure]:
    """What the session adds to the time of the training, in percent, and how much it draws."""
    command = [sys.executable, "-m", "benchmarks.monitoring.bench_figures"]
    command += [str(epochs), str(epoch_s)]
    results: list[dict[str, float]] = []
    for _ in range(PROCESSES):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        results.append(json.loads(done.stdout))
    drawn = statistics.median(each["drawn"] for each in results)
    bars = {"time": 100 * BAR_SHARE, "cpu": None}
    for what, words in (("time", ""), ("cpu", ", in processor time")):
        middle, low, high = spread_of([each[what] for each in results])
        yield Figure(
            name=f"figures beside epochs of {epoch_s:g} s: added to the training's time{words}",
            value=middle,
            unit="%",
            low=low,
            high=high,
            bar=bars[what],
            note=f"{PROCESSES} blocks between others without figures, import of matplotlib "
            f"included; {drawn:g} of {epochs} epochs drawn, and the last one afterwards",
        )


if __name__ == "__main__":
    print(json.dumps(_added(int(sys.argv[1]), float(sys.argv[2]))))
