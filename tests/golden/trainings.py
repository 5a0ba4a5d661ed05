"""The two small trainings of the golden files: one under `attach`, one under `Session`.

Golden checkpoints hold the state of exactly these objects, so nothing here may change. They use
float64: other processors round the last bits of float32 sums otherwise, and Adam enlarges that.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from midstep import Command, DebugController, Session, SessionConfig, attach

PATIENCE_S = 60.0
"""Only a test that fails waits this long."""
SAMPLES, BATCH = 26, 4
"""Seven steps an epoch, the last with two samples."""
STOPPED_AT, EPOCHS = 10, 3
"""The checkpoints are of the middle of the second epoch; the trainings end with the third."""


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def model() -> nn.Sequential:
    """Dropout and batch norm, so that generators and buffers matter."""
    layers = nn.Linear(3, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.25), nn.Linear(6, 2)
    return nn.Sequential(*layers).double()


def data() -> TensorDataset:
    """Inputs, classes, and the number of each sample."""
    x = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return TensorDataset(x, torch.arange(SAMPLES) % 2)


def loader() -> DataLoader[Any]:
    return DataLoader(data(), batch_size=BATCH, shuffle=True)


# -- attach ---------------------------------------------------------------------------------------


class AttachedTraining:
    """A plain loop with Adam and a scheduler, as a user writes it."""

    def __init__(self, controller: DebugController | None = None) -> None:
        seed_everything(11)
        self.controller = controller if controller is not None else DebugController()
        self.model, self.loader, self.loss_fn = model(), loader(), nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.02, weight_decay=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.8)
        self.steps: list[dict[str, Any]] = []

    def attach(self, **settings: Any) -> Any:
        """The run, not yet entered."""
        return attach(
            self.model,
            self.optimizer,
            self.loader,
            scheduler=self.scheduler,
            loss_fn=self.loss_fn,
            controller=self.controller,
            **{"name": "attached", "run_name": "attached", "on_error": "raise", **settings},
        )

    def train(self, run: Any, *, epochs: int, stop_at: int | None = None) -> None:
        """The loop; at `stop_at` finished steps it asks to be stopped."""
        for _epoch in run.epochs(epochs):
            for x, target in self.loader:
                loss = self.loss_fn(self.model(x), target)
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                run.log(loss=loss)
                self.steps.append({"samples": x[:, 0].tolist(), "loss": float(loss.detach())})
                if self.controller.get_state()["step"] + 1 == stop_at:
                    self.controller.stop()
            self.scheduler.step()

    def state(self) -> dict[str, Any]:
        """What a resume puts back before the loop begins."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
        }


# -- Session --------------------------------------------------------------------------------------


class Average:
    """A moving average of the weights: state of the user's own, made of tensors."""

    def __init__(self, of: nn.Module) -> None:
        self.model = of
        self.values = {name: value.detach().clone() for name, value in of.named_parameters()}

    def update(self) -> None:
        for name, value in self.model.named_parameters():
            self.values[name].mul_(0.9).add_(value.detach(), alpha=0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.values = {name: value.clone() for name, value in state["values"].items()}


class Odd:
    """State of every kind that a checkpoint can hold and JSON or safetensors alone cannot."""

    def __init__(self) -> None:
        self.steps = 0
        self.loaded: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        tied = torch.arange(4, dtype=torch.int32) + self.steps
        return {
            "steps": self.steps,
            "tuple": (1, (2.5, None), "three"),
            "integer keys": {0: "zero", -7: True},
            "odd numbers": [float("inf"), float("-inf"), float("nan"), -0.0, 1e-320, 2**70],
            "bytes": b"\x00\xff golden",
            "ordered": OrderedDict([("b", 1), ("a", 2)]),
            "counter": Counter("golden"),
            "half": torch.tensor([1.5, -2.25], dtype=torch.bfloat16),
            "flags": torch.tensor([True, False]),
            "scalar": torch.tensor(self.steps),
            "empty": torch.zeros(0, 3),
            "tied": [tied, tied],
            "part of tied": tied[1:3],
            "array": np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
            "text": "Zeichen: ä, 漢, 🙂",
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps, self.loaded = state["steps"], dict(state)


class SessionTraining:
    """A session with Adam, a scheduler, validation, test, and state of the user's own."""

    def __init__(self, controller: DebugController | None = None, **settings: Any) -> None:
        seed_everything(5)
        self.controller = controller if controller is not None else DebugController()
        self.model = model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.03)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.7)
        self.average, self.odd = Average(self.model), Odd()
        self.session = Session(
            self.model,
            self.optimizer,
            nn.CrossEntropyLoss(),
            loader(),
            DataLoader(data(), batch_size=5),
            DataLoader(data(), batch_size=3),
            scheduler=self.scheduler,
            controller=self.controller,
            config=SessionConfig(
                **{
                    "run_name": "session",
                    "seed": 7,
                    "data_order_policy": "epoch_reseed",
                    "grad_clip_norm": 0.5,
                    **settings,
                }
            ),
            extra_state={"average": self.average, "odd": self.odd},
        )
        self.steps: list[dict[str, Any]] = []
        self.session.after_step(lambda _model: self._after_step())
        self.session.on_step(
            lambda record: self.steps.append(
                {"step": record.step, "ids": list(record.sample_ids), "loss": record.loss}
            )
        )

    def _after_step(self) -> None:
        self.average.update()
        self.odd.steps += 1

    def state(self) -> dict[str, Any]:
        """What a resume puts back."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "average": self.average.state_dict(),
            "odd": self.odd.loaded if self.odd.loaded is not None else self.odd.state_dict(),
            "python random": random.getstate(),
            "torch random": torch.get_rng_state(),
            "numpy random": dict(np.random.get_state(legacy=False)),
        }


# -- resumed --------------------------------------------------------------------------------------


def resumed_training(kind: str, folder: Path) -> dict[str, Any]:
    """Resume a golden checkpoint in `folder`: the state put back, and what the training does then.

    Used by the generator and by the test, so that both do the same.
    """
    if kind == "attached":
        attached = AttachedTraining()
        with attached.attach(save_dir=folder, resume="must") as run:
            restored = digests(attached.state())
            step = attached.controller.get_state()["step"]
            attached.train(run, epochs=EPOCHS)
        trained: Any = attached
    else:
        trained = SessionTraining(save_dir=folder, resume="must")
        with trained.session as session:
            _ = session.dir  # opens the run, and puts the checkpoint back
            restored = digests(trained.state())
            step = trained.controller.get_state()["step"]
            session.fit(epochs=EPOCHS)
    return {
        "step": step,
        "restored": restored,
        "steps": trained.steps,
        "lr": trained.optimizer.param_groups[0]["lr"],
        "weights": {name: value.tolist() for name, value in trained.model.state_dict().items()},
    }


# -- driven from outside --------------------------------------------------------------------------


@contextmanager
def training_in_thread(controller: DebugController, target: Any) -> Iterator[None]:
    """Run a training in its own thread, parked before its first step; stop it at the end."""
    parked = controller.submit(Command(name="pause"))
    errors: list[BaseException] = []

    def work() -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            errors.append(error)

    thread = threading.Thread(target=work, name="training")
    thread.start()
    try:
        parked.result(PATIENCE_S)
        yield
    finally:
        controller.stop()
        thread.join(PATIENCE_S)
    if errors:
        raise errors[0]


def ask(controller: DebugController, name: str, **payload: Any) -> Any:
    """Submit a command and wait for its result."""
    return controller.submit(Command(name=name, payload=payload)).result(PATIENCE_S)


# -- comparing ------------------------------------------------------------------------------------


def digest(value: Any) -> str:
    """A hash of everything a state holds, types included, bit for bit."""
    hashed = hashlib.blake2b(digest_size=12)
    for text in _walk(value):
        hashed.update(text if isinstance(text, bytes) else text.encode())
        hashed.update(b"\x1e")
    return hashed.hexdigest()


def _walk(value: Any) -> Iterator[str | bytes]:
    yield type(value).__name__
    if isinstance(value, torch.Tensor):
        yield f"{value.dtype} {tuple(value.shape)}"
        yield (
            value.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes()
            if (value.numel())
            else b""
        )
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str} {value.shape}"
        yield value.tobytes()
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(key)
            yield from _walk(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _walk(item)
    else:
        yield float(value).hex() if isinstance(value, float) else repr(value)


def digests(state: Mapping[str, Any]) -> dict[str, str]:
    return {name: digest(part) for name, part in state.items()}
