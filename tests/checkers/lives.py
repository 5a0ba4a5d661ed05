"""A training in several processes: each is forked from this warm one, and may end at a step.

What a training does is written once, as a function of a `Life`, for both drivers.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # the first optimizer imports it, which takes seconds: not in every child

from midstep.control import Command
from midstep.facts import FactsReader
from tests.checkers.kill import Acknowledge, ForkedChild

Fault = str
"""`kill`: SIGKILL. `raise`: an error of the user's code. `stop`: a stop with a checkpoint. `term`:
the same by SIGTERM."""


@dataclass
class Life:
    """One process of a training: where it writes, and where it ends."""

    save_dir: Path
    tell: Acknowledge
    fault: Fault | None = None
    at: int = 0

    @property
    def settings(self) -> dict[str, Any]:
        """For `Session` and `attach` alike."""
        return {"save_dir": self.save_dir, "run_name": "run", "resume": "auto"}

    def step_done(self, step: int, loss: float, controller: Any, writer: Any) -> None:
        """Call it after each step, with the number of finished steps."""
        self.tell([step, float(loss).hex()])
        if step != self.at or self.fault is None:
            return
        writer.wait()  # so that each case continues from the same checkpoint each time
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "raise":
            raise RuntimeError("the user's code failed")
        if self.fault == "term":
            os.kill(os.getpid(), signal.SIGTERM)
            # Another thread stops the run: without this wait a case would stop anywhere.
            while not controller.boundary.is_stopping:
                time.sleep(0.001)
            return
        controller.submit(Command(name="stop"))


Training = Callable[[Life], Iterable[torch.Tensor]]
"""Trains to its end; returns the tensors that a later step depends on."""


@dataclass
class Outcome:
    """What the lives of one training gave."""

    losses: dict[int, str] = field(default_factory=dict)
    digest: str | None = None
    errors: list[str] = field(default_factory=list)
    """What ended a life, if not its fault."""


def live(training: Training, save_dir: Path, fault: Fault | None = None, at: int = 0) -> Outcome:
    """One life, to its end or its fault."""

    def work(tell: Acknowledge) -> None:
        try:
            tensors = training(Life(save_dir, tell, fault, at))
        except SystemExit as end:
            if fault != "term" or end.code != 0:
                raise
            return
        tell({"digest": digest_of(tensors)})

    outcome = Outcome()
    for message in ForkedChild(work).wait(timeout_s=60):
        if isinstance(message, list):
            outcome.losses[message[0]] = message[1]
        elif "raised" in message:
            outcome.errors.append(message["raised"])
        else:
            outcome.digest = message["digest"]
    return outcome


def digest_of(tensors: Iterable[torch.Tensor]) -> str:
    """One hash of the bits of all tensors."""
    hashed = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        hashed.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def repeated_facts(save_dir: Path) -> list[Mapping[str, Any]]:
    """The facts on repeated steps of the run, oldest first."""
    events = FactsReader(save_dir / "run").events()
    return [event for event in events if event.get("kind") == "repeated_steps"]


def inexact_facts(save_dir: Path) -> list[str]:
    """What the run said a resume cannot repeat."""
    events = FactsReader(save_dir / "run").events()
    return [str(event["reason"]) for event in events if event.get("kind") == "inexact"]
