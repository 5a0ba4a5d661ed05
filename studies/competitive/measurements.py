"""What the debugger shows of one run at chosen steps, through the client that twins its page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tools.demo_process import running_demo

from midstep.client import Client
from midstep.loops.bcl_config import Condition

__all__ = ["STEPS", "Look", "look_into"]

STEPS = (1, 10, 100, 500, 1000, 2500, 5000)
PULLING = 8
"""Images of a batch that pull most, kept per look."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """One condition, parked after `step` steps."""

    condition: Condition
    step: int
    weight_cosine: float
    """Mean over all pairs of different features."""
    target_cosine: float | None
    """The same of the SOM targets; None where nothing pulls."""
    grad_norm: float
    """Median over the features of the length of the gradient's part of the step."""
    som_norm: float
    """The same of the pull's part."""
    agree: int
    fight: int
    neutral: int
    pulling: Counter[int] = field(default_factory=Counter)
    """Labels of the images that pull most."""
    labels: Counter[int] = field(default_factory=Counter)
    """Labels of the batch they are from."""


def look_into(condition: Condition, folder: Path, steps: tuple[int, ...] = STEPS) -> list[Look]:
    """Run a demo of the condition to each step in turn and look."""
    arguments = ("--condition", condition, "--steps", "25000", "--port", "0", "--start-paused")
    with running_demo(folder, *arguments) as url:
        base, _, token = url.partition("/#token=")
        client = Client(base, token=token)
        return [_look(client, condition, step) for step in steps]


def _look(client: Client, condition: Condition, step: int) -> Look:
    # The step that is looked at must be watched: so it is made alone, parked before and after.
    _park_at(client, step - 1)
    client.step()
    _park_at(client, step)
    forces = client.forces.rows()
    pulled = condition not in ("control", "neighborhood")
    targets = client.forces.cosine_matrix("som_targets")["mean_offdiag"] if pulled else None
    pulling, labels = _pulling(client) if pulled else (Counter(), Counter())
    return Look(
        condition=condition,
        step=step,
        weight_cosine=client.forces.cosine_matrix("weights")["mean_offdiag"],
        target_cosine=targets,
        grad_norm=median(forces["features"]["grad_norm"]),
        som_norm=median(forces["features"]["som_norm"]),
        agree=forces["agree"],
        fight=forces["fight"],
        neutral=forces["neutral"],
        pulling=pulling,
        labels=labels,
    )


def _park_at(client: Client, step: int) -> None:
    state = client.state()
    if state["parked"] and state["step"] == step:
        return
    if state["step"] < step:
        client.run_until(step)
    for message in client.stream():
        now = message.get("state", {})
        if now.get("parked") and now.get("step") == step:
            return


def _pulling(client: Client) -> tuple[Counter[int], Counter[int]]:
    """Labels of the images with the most pull over all features, and of the whole batch."""
    weights: list[list[Any]] = client.step_data("bcl_tensors")["data"]["som_weight"]
    labels = [int(label) for label in client.batch()["labels"]]
    pull = [sum(float(value) for value in row) for row in weights]
    most = sorted(range(len(pull)), key=lambda sample: -pull[sample])[:PULLING]
    return Counter(labels[sample] for sample in most), Counter(labels)
