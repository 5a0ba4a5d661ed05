"""What `attach` and `Session` add to a step of almost nothing, and which part adds how much.

Time of the training thread alone, in loops that take turns: what else runs on the machine would
count otherwise, and is more than what is measured.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch

from benchmarks.figures import Figure, spread_of
from midstep.live import AttachedRun, attach
from midstep.session import Session, SessionConfig

__all__ = ["step_costs"]

WARM_UP_STEPS = 200
"""Not counted: draws are watched and metrics find their pace in the first steps of a run."""
STEPS = 1000
ROUNDS = 7


def step_costs() -> list[Figure]:
    """Both against the plain loop; a part's cost is what goes away when it is switched off."""
    loops: dict[str, Callable[[], float]] = {
        "plain": _plain,
        "attach": _attached,
        "facts": lambda: _attached(without=_no_facts),
        "metrics": lambda: _attached(without=_no_metrics),
        "states to go back to": lambda: _attached(rewind_steps=0),
        "session": _session,
        "plain indices": _plain_indices,
        "steps": _stepped,
    }
    torch.set_num_threads(1)
    spent: dict[str, list[float]] = {name: [] for name in loops}
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        for _ in range(ROUNDS):
            for name, loop in loops.items():
                spent[name].append(loop())
    parts = [
        f"{name} {_median_gap(spent['attach'], spent[name]):.0f}"
        for name in ("facts", "metrics", "states to go back to")
    ]
    plain = spent["plain"]
    base = f"plain step {statistics.median(plain):.0f} µs"
    return [
        _figure(
            "attach, no viewer, per step", spent["attach"], plain, f"{base}; {', '.join(parts)}"
        ),
        _figure("Session, no viewer, per step", spent["session"], plain, base),
        _figure(
            "run.steps without a loader, no viewer, per step",
            spent["steps"],
            spent["plain indices"],
            f"plain step {statistics.median(spent['plain indices']):.0f} µs",
        ),
    ]


def _median_gap(more: list[float], less: list[float]) -> float:
    return statistics.median(a - b for a, b in zip(more, less, strict=True))


def _figure(name: str, spent: list[float], plain: list[float], note: str) -> Figure:
    value, low, high = spread_of([a - b for a, b in zip(spent, plain, strict=True)])
    return Figure(name=name, value=value, unit="µs", low=low, high=high, note=note)


def _parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    data: Any = torch.randn(WARM_UP_STEPS + STEPS, 4)
    loader: Any = torch.utils.data.DataLoader(data, batch_size=1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01), loader


def _loss(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(batch).square().mean()
    return loss


def _epoch(parts: tuple[Any, Any, Any], log: Callable[..., object]) -> float:
    """µs a step of the training thread."""
    model, optimizer, loader = parts
    begun = 0
    for index, batch in enumerate(loader):
        if index == WARM_UP_STEPS:
            begun = time.thread_time_ns()
        loss = _loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        log(loss=loss)
    return (time.thread_time_ns() - begun) / 1000 / STEPS


def _plain() -> float:
    return _epoch(_parts(), lambda loss: loss.item())


def _attached(without: Callable[[AttachedRun], None] | None = None, **settings: Any) -> float:
    parts, spent_us = _parts(), 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        attach(*parts, save_dir=folder, **settings) as run,
    ):
        if without is not None:
            without(run)
        spent_us = _epoch(parts, run.log)
    return spent_us  # noqa: RET504 - the block swallows a stop, so it must not return itself


def _loop(
    model: Any,
    optimizer: Any,
    indices: Iterable[int],
    batch: Callable[[Any], Any],
    log: Callable[..., Any],
) -> float:
    """µs a step of a loop that draws its own batches."""
    begun = 0
    for index in indices:
        if index == WARM_UP_STEPS:
            begun = time.thread_time_ns()
        loss = _loss(model, batch(torch.randn(1, 4)))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        log(loss=loss)
    return (time.thread_time_ns() - begun) / 1000 / STEPS


def _plain_indices() -> float:
    model, optimizer, _ = _parts()
    indices = range(WARM_UP_STEPS + STEPS)
    return _loop(model, optimizer, indices, lambda batch: batch, lambda loss: loss.item())


def _stepped() -> float:
    spent_us = 0.0
    model, optimizer, _ = _parts()
    with tempfile.TemporaryDirectory() as folder, attach(model, optimizer, save_dir=folder) as run:
        spent_us = _loop(model, optimizer, run.steps(WARM_UP_STEPS + STEPS), run.batch, run.log)
    return spent_us  # noqa: RET504 - as above


def _no_facts(run: AttachedRun) -> None:
    facts: Any = run.facts
    facts.log_values = lambda _step, _values: None


def _no_metrics(run: AttachedRun) -> None:
    loop: Any = run._loop
    metrics = loop._metrics
    metrics.step_begins, metrics.step_ended = lambda: None, lambda **_: {}


def _session() -> float:
    model, optimizer, loader = _parts()
    marks = []

    with tempfile.TemporaryDirectory() as folder:
        config = SessionConfig(save_dir=folder, run_name="cost")
        with Session(model, optimizer, None, loader, config=config) as session:

            @session.training_step
            def step(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
                marks.append(time.thread_time_ns())
                return _loss(model, batch)

            session.fit(epochs=1)
    return (marks[-1] - marks[WARM_UP_STEPS]) / 1000 / (STEPS - 1)
