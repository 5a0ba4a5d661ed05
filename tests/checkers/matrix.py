"""Trainings that nobody wrote by hand, interrupted and resumed: exact, or the run says it is not.

`draw_case` chooses sampler, generators, optimizer, loss, accumulation, workers, learning rate and
logging at random; `assert_not_silent` accepts only two outcomes of a resume.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from midstep.live import attach
from midstep.session import Session, SessionConfig
from tests.checkers import own_noise
from tests.checkers.lives import Life, Outcome, inexact_facts, live, repeated_facts

SAMPLES, BATCH, EPOCHS = 22, 4, 3
BATCHES = 6
CHECKPOINT_EVERY = 4

SAMPLERS = (
    "sequential",
    "shuffle",
    "own generator",
    "weighted",
    "generator in a list",
    "generator in a dict",
    "stream",
)
KEEPING_SAMPLERS = ("epoch counter", "list of its own")
GENERATORS = (
    "none",
    "torch in the step",
    "numpy in the step",
    "python in collate",
    "torch in a module",
    "numpy in a global",
    "numpy in a deque",
    "numpy nested in the dataset",
    "numpy in a module of the user's",
    "numpy in slots",
    "numpy in a global of a method",
    "torch in a gradient hook",
)
UNSAVED_GENERATORS = ("numpy in the dataset", "numpy in a running function")
OPTIMIZERS = (
    "sgd",
    "adam",
    "memory in attributes",
    "wrapped",
    "untracked tensor",
    "noise",
    "step hook",
)
LOSSES = ("plain", "with parameters", "annealed", "annealed object")
RATES = ("constant", "scheduler", "drawn by the scheduler")
UNSAVED_RATES = ("undeclared scheduler", "counter")
LOGS = ("loss", "running mean", "window mean", "cumulative mean every 2nd step", "nothing")
AVERAGES = ("none", "none", "declared")
UNSAVED_AVERAGES = ("AveragedModel", "copy")
SECONDS = ("iter", "map", "chain")
UNSAVED_SHARE = 0.1
"""How often a state is drawn that nothing can save, of each kind: else few cases were exact."""
FAULTS = ("kill", "raise", "stop", "term")

GLOBAL = {"rng": np.random.default_rng(5)}
global_rng = GLOBAL["rng"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One generated training and its fault."""

    driver: Literal["session", "attach"] = "session"
    sampler: str = "shuffle"
    generator: str = "none"
    optimizer: str = "sgd"
    loss: str = "plain"
    rate: str = "constant"
    logs: str = "loss"
    average: str = "none"
    """A moving average of the weights that each step updates."""
    accumulate: int | Literal["enumerate"] = 1
    workers: int = 0
    second: str = "none"
    """How each step reads from a running pass over another shuffled loader."""
    fault: str = "kill"
    at: float = 0.5
    """Share of the steps after which the fault comes."""

    @property
    def steps(self) -> int:
        if self.accumulate == "enumerate":
            return 2 * EPOCHS
        return EPOCHS * BATCHES // self.accumulate

    @property
    def fault_step(self) -> int:
        return max(1, min(self.steps - 1, round(self.at * self.steps)))

    def names(self) -> list[str]:
        """For each drawn state that nothing can save, words of what the run must say about it."""
        in_dataset = self.generator == "numpy in the dataset"
        is_stream = self.sampler == "stream"
        # The order names what a dataset holds; the search of the workers' parts names the rest.
        is_inside = self.generator == "numpy nested in the dataset" or (in_dataset and is_stream)
        drawn = {
            "keeps a Generator of its own": in_dataset and not is_stream,
            "collate_fn": self.generator == "python in collate" and self.workers > 0,
            "dataset.": self.workers > 0 and is_inside,
            "a running": self.second != "none",
            "StepLR that was not given": self.rate == "undeclared scheduler",
            "AveragedModel that was not given": self.average == "AveragedModel",
            "that no declared part holds": self.average == "copy",
        }
        return [words for words, is_drawn in drawn.items() if is_drawn]

    @property
    def is_hidden(self) -> bool:
        """Whether a state was drawn that only a comparison with the record can notice."""
        return self.generator == "numpy in a running function" or self.rate == "counter"

    @property
    def must_be_exact(self) -> bool:
        """Whether all that was drawn is saved, so that no excuse is accepted."""
        is_kept = self.sampler not in KEEPING_SAMPLERS and self.accumulate != "enumerate"
        return is_kept and not self.names() and not self.is_hidden


def draw_case(number: int) -> Case:
    """Case `number` of the matrix; the same each time."""
    draw = random.Random(number)
    driver: Any = draw.choice(["session", "attach"])
    accumulate: Any = draw.choice([1, 1, 1, 2, 2, "enumerate" if driver == "attach" else 2])

    def choose(saved: Sequence[str], unsaved: Sequence[str]) -> str:
        return draw.choice(unsaved if draw.random() < UNSAVED_SHARE else saved)

    return Case(
        driver=driver,
        sampler=choose(SAMPLERS, KEEPING_SAMPLERS),
        generator=choose(GENERATORS, UNSAVED_GENERATORS),
        optimizer=draw.choice(OPTIMIZERS),
        loss=draw.choice(LOSSES),
        rate=choose(RATES, UNSAVED_RATES),
        logs=draw.choice(LOGS) if driver == "attach" else "loss",
        average=choose(AVERAGES, UNSAVED_AVERAGES),
        accumulate=accumulate,
        workers=draw.choice([0, 0, 0, 1]),
        second=choose(["none"], SECONDS),
        fault=draw.choice(FAULTS),
        at=draw.uniform(0.2, 0.9),
    )


def assert_not_silent(case: Case, folder: Path) -> str:
    """Train whole and interrupted; exact, named or refused, and no false alarm.

    Returns:
        `exact`, `refused`, or what the run said about its inexact resume.
    """
    whole = live(training(case), folder / "whole")
    assert not (case.must_be_exact and whole.errors), f"{whole.errors} in {case}"
    if whole.errors:
        return _refused(case, whole)
    assert whole.digest is not None
    first = live(training(case), folder, case.fault, case.fault_step)
    last = live(training(case), folder)
    if last.errors:
        return _refused(case, last)
    named = [str(each["text"]) for each in repeated_facts(folder) if each["exact"] is False]
    is_exact = last.digest == whole.digest and _agree(whole, first) and _agree(whole, last)
    if is_exact:
        assert not named, f"a false alarm: {named} in {case}"
        return "exact"
    # The terminal says that nothing could be compared, and so does a fact.
    compared = [str(each["text"]) for each in repeated_facts(folder) if each["exact"] is not True]
    inexact = inexact_facts(folder)
    silent = [words for words in case.names() if not any(words in text for text in inexact)]
    assert not silent, f"silent about {silent}: {case}, {inexact}"
    assert compared or not case.is_hidden, f"silently inexact: {case}, {repeated_facts(folder)}"
    # A counter of `enumerate` matters only where the resume shifts it.
    is_shifted = any("a batch counter of its own" in text for text in inexact)
    is_named = bool(case.names()) or case.is_hidden or is_shifted
    assert is_named, f"inexact for no reason: {case}, {inexact}, {compared}"
    return "; ".join(compared + inexact)


def _refused(case: Case, outcome: Outcome) -> str:
    (error,) = outcome.errors
    keeps_state = case.sampler in KEEPING_SAMPLERS
    words = [*case.names(), *(["keeps state of its own"] if keeps_state else [])]
    assert any(each in error for each in words), f"{error} in {case}"
    return "refused"


def _agree(whole: Outcome, part: Outcome) -> bool:
    return all(whole.losses.get(step) == loss for step, loss in part.losses.items())


def training(case: Case) -> Callable[[Life], Iterable[torch.Tensor]]:
    """The training of a case, for `live`."""
    return lambda life: (_train_session if case.driver == "session" else _train_attach)(case, life)


# -- the two drivers ------------------------------------------------------------------------------


def _train_session(case: Case, life: Life) -> list[torch.Tensor]:
    torch.set_num_threads(1)
    parts = Parts(case)
    per_step = case.rate in ("scheduler", "drawn by the scheduler")
    config = SessionConfig(
        **life.settings,
        checkpoint_every_steps=CHECKPOINT_EVERY,
        accumulate_steps=1 if case.accumulate == "enumerate" else case.accumulate,
        scheduler_interval="step" if per_step else None,
    )
    with Session(
        parts.model,
        parts.optimizer,
        parts.loss_fn,
        parts.loader,
        scheduler=parts.scheduler if per_step else None,
        config=config,
        extra_state=parts.extra_state,
    ) as session:
        session.training_step(parts.step)
        if parts.average is not None:
            session.after_step(parts.update_average)
        if case.rate == "undeclared scheduler":
            scheduler = parts.scheduler

            @session.after_step
            def advance(_model: nn.Module) -> None:
                scheduler.step()

        session.on_step(
            lambda record: life.step_done(
                record.step, record.loss, session.controller, session.checkpoint_writer
            )
        )
        session.fit(epochs=EPOCHS)
        return parts.tensors()


def _train_attach(case: Case, life: Life) -> list[torch.Tensor]:
    torch.set_num_threads(1)
    parts = Parts(case)
    is_given = case.rate in ("scheduler", "drawn by the scheduler")
    given = {"scheduler": parts.scheduler} if is_given else {}
    every = 4 if case.accumulate == "enumerate" else case.accumulate
    mean, count = 0.0, 0
    with attach(
        parts.model,
        parts.optimizer,
        parts.loader,
        loss_fn=None if case.loss == "plain" else parts.loss_fn,
        checkpoint_every_steps=CHECKPOINT_EVERY,
        extra_state=parts.extra_state,
        **given,
        **life.settings,
    ) as run:
        for _ in run.epochs(EPOCHS):
            for i, batch in enumerate(parts.loader):
                loss = parts.step(parts.model, batch)
                torch.autograd.backward(loss / every)
                is_last = case.accumulate == "enumerate" and i + 1 == BATCHES
                if (i + 1) % every and not is_last:
                    continue
                parts.optimizer.step()
                parts.optimizer.zero_grad()
                if parts.average is not None:
                    parts.update_average(parts.model)
                if parts.scheduler is not None:
                    parts.scheduler.step()
                count += 1
                mean += (loss.item() - mean) / count
                if (run.step + 1) % _log_every(case) == 0:
                    run.log(loss=loss if case.logs == "loss" else mean)
                    if case.logs == "window mean":
                        mean, count = 0.0, 0
                engine: Any = run._loop._engine  # type: ignore[union-attr]
                life.step_done(run.step + 1, loss.item(), run.controller, engine.writer)
    return parts.tensors()


def _log_every(case: Case) -> int:
    """How many steps there are from one logged loss to the next."""
    return {"window mean": 5, "cumulative mean every 2nd step": 2, "nothing": 1 << 30}.get(
        case.logs, 1
    )


# -- the parts of a training ----------------------------------------------------------------------


class Parts:
    """Model, optimizer, loader, loss and step, built anew as a restarted script builds them."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        self.case = case
        self.model = _model(case)
        self.loss_fn: Any = _loss(case)
        self.shift = torch.zeros(1, requires_grad=True)
        trained: list[Any] = [*self.model.parameters()]
        if case.loss == "with parameters":
            trained += self.loss_fn.parameters()
        if case.optimizer == "untracked tensor":
            trained.append(self.shift)
        self.optimizer = _optimizer(case, trained)
        self.scheduler: Any = None
        if case.rate == "drawn by the scheduler":
            draws = np.random.default_rng(8)
            self.scheduler = torch.optim.lr_scheduler.LambdaLR(
                self.optimizer, lambda _step: 1 + 0.5 * float(draws.random())
            )
        elif "scheduler" in case.rate:
            self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7)
        self.average: Any = None
        if case.average != "none":
            kind = AveragedModel if case.average == "AveragedModel" else copy.deepcopy
            self.average = kind(self.model)
        self.extra_state = {"average": self.average} if case.average == "declared" else None
        self.loader = _loader(case)
        self.step = _step(case, self.loss_fn, self.shift, self.optimizer)

    def update_average(self, model: nn.Module) -> None:
        """After each step."""
        if isinstance(self.average, AveragedModel):
            self.average.update_parameters(model)
            return
        with torch.no_grad():
            for mean, weight in zip(self.average.parameters(), model.parameters(), strict=True):
                mean.lerp_(weight, 0.1)

    def tensors(self) -> list[torch.Tensor]:
        """What the training has computed."""
        own = [self.loss_fn.scale] if isinstance(self.loss_fn, ScaledLoss) else []
        average = [] if self.average is None else self.average.parameters()
        return [*self.model.state_dict().values(), *own, self.shift, *average]


def _loss(case: Case) -> Any:
    losses = {
        "plain": lambda: nn.functional.mse_loss,
        "with parameters": ScaledLoss,
        "annealed": AnnealedLoss,
        "annealed object": AnnealedObject,
    }
    return losses[case.loss]()


class AnnealedObject:
    """A loss whose weight grows with each call."""

    def __init__(self) -> None:
        self.calls, self.growth = 0, 0.01

    def __call__(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return (output - target).square().mean() * (1 + self.growth * self.calls)


class AnnealedLoss(nn.Module):
    """The same as a module, whose counter begins with the first call."""

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        self.calls: Any = getattr(self, "calls", 0) + 1
        return (output - target).square().mean() * (1 + 0.01 * self.calls)


class ScaledLoss(nn.Module):
    """A loss with a trained parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target * self.scale).square().mean() + self.scale.square()


class Noise(nn.Module):
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * torch.randn(x.shape, generator=self.generator)


def _model(case: Case) -> nn.Module:
    noise = Noise() if case.generator == "torch in a module" else nn.Identity()
    model = nn.Sequential(noise, nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
    if case.generator == "torch in a gradient hook":
        generator = torch.Generator().manual_seed(4)
        for weight in model.parameters():
            weight.register_hook(  # type: ignore[no-untyped-call]
                lambda grad: grad + 0.05 * torch.randn(grad.shape, generator=generator)
            )
    return model


class AttributeMomentum(Optimizer):
    """Keeps its momentum in an attribute, where `state_dict` does not find it."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.memory: dict[torch.Tensor, torch.Tensor] = {}
        self.calls = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.calls += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    kept = self.memory.setdefault(p, torch.zeros_like(p))
                    kept.mul_(0.9).add_(p.grad)
                    p.add_(kept, alpha=-group["lr"] / (1 + 0.01 * self.calls))


class Noisy(Optimizer):
    """Adds noise from a generator of its own to each gradient, as Langevin dynamics does."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.generator = torch.Generator().manual_seed(5)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    noise = torch.randn(p.shape, generator=self.generator)
                    p.add_(p.grad + 0.05 * noise, alpha=-group["lr"])


class Wrapped(Optimizer):
    """Steps another optimizer, whose state its own `state_dict` lacks."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})
        self.base_optimizer = torch.optim.Adam(self.param_groups, lr=lr)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for own, inner in zip(self.param_groups, self.base_optimizer.param_groups, strict=True):
            inner["lr"] = own["lr"]
        self.base_optimizer.step()


def _optimizer(case: Case, trained: list[Any]) -> Optimizer:
    if case.optimizer == "adam":
        return torch.optim.Adam(trained, lr=0.02)
    if case.optimizer == "memory in attributes":
        return AttributeMomentum(trained, lr=0.02)
    if case.optimizer == "wrapped":
        return Wrapped(trained, lr=0.02)
    if case.optimizer == "noise":
        return Noisy(trained, lr=0.02)
    optimizer = torch.optim.SGD(trained, lr=0.02, momentum=0.9)
    if case.optimizer == "step hook":
        optimizer.register_step_pre_hook(_noise_hook())
    return optimizer


def _noise_hook() -> Callable[..., None]:
    rng = np.random.default_rng(4)

    def add_noise(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        for p in optimizer.param_groups[0]["params"]:
            if p.grad is not None:
                p.grad.add_(0.05 * float(rng.normal()))

    return add_noise


class Points(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Twenty-two points; some generators draw a number for each that is read."""

    def __init__(self, generator: str = "none") -> None:
        self.data = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(1))
        if generator == "numpy in the dataset":
            self.rng = np.random.default_rng(4)
        if generator == "numpy nested in the dataset":
            rng = np.random.default_rng(4)
            self.transforms = [abs, lambda x: x + float(rng.normal())]

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.data[index]
        if hasattr(self, "rng"):
            x = x + float(self.rng.normal())
        for transform in getattr(self, "transforms", ()):
            x = transform(x)
        return x, x.sum()[None]


class Stream(IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """The same points, one after the other, with a state."""

    def __init__(self, points: Points) -> None:
        self.points, self.position = points, 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while self.position < SAMPLES:
            self.position += 1
            yield self.points[self.position - 1]
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


class EpochCounter:
    """Shuffles by how often it was asked, and not by what epoch it is told."""

    def __init__(self) -> None:
        self.epoch = 0

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order.tolist())


class Permuting:
    """Shuffles by a generator that it keeps in a container."""

    def __init__(self, box: Any) -> None:
        self.box = box

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        rng = self.box["rng"] if isinstance(self.box, dict) else self.box[0]
        return iter(rng.permutation(SAMPLES).tolist())


class Rotating:
    """Each epoch begins with other samples: the order of the epoch before, turned by five."""

    def __init__(self) -> None:
        self.order = list(range(SAMPLES))

    def __len__(self) -> int:
        return SAMPLES

    def __iter__(self) -> Iterator[int]:
        self.order = self.order[5:] + self.order[:5]
        return iter(list(self.order))


def _loader(case: Case) -> DataLoader[Any]:
    points = Points(case.generator)
    settings: dict[str, Any] = {"batch_size": BATCH, "num_workers": case.workers}
    if case.generator == "python in collate":
        settings["collate_fn"] = _drawing_collate()
    if case.sampler == "stream":
        return DataLoader(Stream(points), **settings)
    samplers: dict[str, dict[str, Any]] = {
        "sequential": {},
        "shuffle": {"shuffle": True},
        "own generator": {"shuffle": True, "generator": torch.Generator().manual_seed(8)},
        "weighted": {"sampler": WeightedRandomSampler([1.0] * 11 + [2.0] * 11, SAMPLES)},
        "epoch counter": {"sampler": EpochCounter()},
        "list of its own": {"sampler": Rotating()},
        "generator in a list": {"sampler": Permuting([np.random.default_rng(2)])},
        "generator in a dict": {"sampler": Permuting({"rng": np.random.default_rng(2)})},
    }
    return DataLoader(points, **settings, **samplers[case.sampler])


def _drawing_collate() -> Callable[[Any], Any]:
    rng = random.Random(6)

    def collate(samples: list[Any]) -> Any:
        x, y = torch.utils.data.default_collate(samples)
        return x * (1 + 0.1 * rng.random()), y

    return collate


def _step(
    case: Case, loss_fn: Any, shift: torch.Tensor, optimizer: Optimizer
) -> Callable[[nn.Module, Any], torch.Tensor]:
    noise = _noise(case)
    others = DataLoader(Points(), batch_size=BATCH, shuffle=True)
    begins: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "iter": lambda: iter(others),
        "map": lambda: map(tuple, others),
        "chain": lambda: itertools.chain(others, others),
    }
    begin = begins[case.second]
    running = begin()
    calls = 0

    def step(model: nn.Module, batch: Any) -> torch.Tensor:
        nonlocal calls, running
        calls += 1
        if case.rate == "counter":
            for group in optimizer.param_groups:
                group["lr"] = 0.02 / calls
        x, y = batch
        loss: torch.Tensor = loss_fn(model(x + noise()) + shift, y)
        if running is not None:
            more = next(running, None)
            if more is None:
                running = begin()
                more = next(running)
            loss = loss + loss_fn(model(more[0]), more[1])
        return loss

    return step


class Slots:
    """Has no `__dict__`."""

    __slots__ = ("rng",)

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)

    def draw(self) -> float:
        return float(self.rng.random())


class Drawing:
    """Reaches its generator only through a method that another method calls."""

    def noise(self) -> float:
        return 0.1 * self._draw()

    def _draw(self) -> float:
        return float(global_rng.random())


def _noise(case: Case) -> Callable[[], float]:
    if case.generator == "torch in the step":
        generator = torch.Generator().manual_seed(2)
        return lambda: 0.1 * torch.rand(1, generator=generator).item()
    if case.generator == "numpy in the step":
        rng = np.random.default_rng(2)
        return lambda: 0.1 * float(rng.random())
    if case.generator == "numpy in a global":
        return lambda: 0.1 * float(global_rng.random())
    if case.generator == "numpy in a module of the user's":
        return lambda: 0.1 * own_noise.draw()
    if case.generator == "numpy in slots":
        slots = Slots()
        return lambda: 0.1 * slots.draw()
    if case.generator == "numpy in a global of a method":
        return Drawing().noise
    if case.generator == "numpy in a running function":
        numbers = _numbers()
        return lambda: 0.1 * next(numbers)
    if case.generator == "numpy in a deque":
        box = deque([np.random.default_rng(2)])
        return lambda: 0.1 * float(box[0].random())
    return lambda: 0.0


def _numbers() -> Iterator[float]:
    """Draws from a generator that no search finds: a running function is not looked into."""
    rng = np.random.default_rng(2)
    while True:
        yield float(rng.random())
