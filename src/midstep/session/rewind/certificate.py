"""The replay certificate: the same steps made twice from one snapshot, compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.core.commands.catalog import DETERMINISM_HEALTH
from midstep.session.checkpoint.fingerprint import hash_value

if TYPE_CHECKING:
    from midstep.session.fit.trainer import StepOutcome, Trainer


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first thing that came out otherwise the second time."""

    step: int
    """The step in which it did: finished steps once that one is done."""
    what: str
    """batch ids, batch, output, loss, gradient, weight or buffer."""
    name: str
    """Of the tensor, or of the layer whose output it is."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What certifying came to."""

    steps: int
    """Steps that were made twice; fewer than asked for where they came apart before."""
    first_step: int
    """The step they were made from."""
    compared: int
    """Hashes that were compared."""
    first_difference: Difference | None
    tensor: Difference | None
    """The first gradient, weight or buffer that differs, where something else differs before."""

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return self.first_difference is None

    @property
    def words(self) -> str:
        """One line for people."""
        made = f"{self.steps} step{'s' if self.steps > 1 else ''} from step {self.first_step:,}"
        first = self.first_difference
        if first is None:
            return f"Exact: {made}, made twice, gave the same bits ({self.compared:,} compared)."
        told = f"Not exact: in step {first.step:,} the {first.what} {first.name!r} differs first"
        if self.tensor is not None and self.tensor != first:
            told += f"; of the tensors it is the {self.tensor.what} {self.tensor.name!r}"
        return f"{told}."

    def describe(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "exact": self.exact,
            "steps": self.steps,
            "first_step": self.first_step,
            "compared": self.compared,
            "first_difference": None
            if self.first_difference is None
            else vars(self.first_difference),
            "tensor": None if self.tensor is None else vars(self.tensor),
        }

    @classmethod
    def from_description(cls, told: Mapping[str, Any]) -> Certificate:
        """From what `describe` gave."""
        first, tensor = told["first_difference"], told["tensor"]
        return cls(
            steps=told["steps"],
            first_step=told["first_step"],
            compared=told["compared"],
            first_difference=None if first is None else Difference(**first),
            tensor=None if tensor is None else Difference(**tensor),
        )


Entry = tuple[str, str, str]
"""What, name and hash."""


def certify(training: Trainer, steps: int) -> Certificate:
    """Make `steps` steps twice and compare; the training stands afterwards where it was.

    >>> from midstep.session.config import SessionConfig
    >>> from midstep.session.fit.trainer import Trainer, TrainingParts
    >>> model = nn.Linear(2, 1)
    >>> parts = TrainingParts(
    ...     model=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     loss_fn=nn.MSELoss(),
    ...     train_loader=torch.utils.data.DataLoader([(torch.ones(2), torch.ones(1))] * 4),
    ... )
    >>> with Trainer(parts, SessionConfig()) as training:
    ...     certify(training, 2).exact, training.step
    (True, 0)
    """
    slices = certify_in_slices(training, steps)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def certify_in_slices(training: Trainer, steps: int) -> Generator[float, None, Certificate]:
    """The same in slices that yield how much is done; closed early it changes nothing either."""
    DETERMINISM_HEALTH.parse({"steps": steps})  # `certify` is also called without a command
    start = training.take()
    first = training.step
    try:
        with training.replay():
            training.restore(start)
            made: list[list[Entry]] = []
            for _ in range(steps):
                made.append(_step(training))
                yield len(made) / (2 * steps)
            training.restore(start)
            compared = 0
            for number, before in enumerate(made):
                again = _step(training)
                compared += len(before)
                differing = _differing(before, again, first + number + 1)
                if differing:
                    return _certificate(number + 1, first, compared, differing)
                yield (steps + number + 1) / (2 * steps)
    finally:
        training.restore(start)
    return _certificate(steps, first, compared, [])


def _certificate(
    steps: int, first: int, compared: int, differing: Sequence[Difference]
) -> Certificate:
    tensors = [each for each in differing if each.what in ("gradient", "weight", "buffer")]
    return Certificate(
        steps=steps,
        first_step=first,
        compared=compared,
        first_difference=differing[0] if differing else None,
        tensor=tensors[0] if tensors else None,
    )


def _differing(one: list[Entry], other: list[Entry], step: int) -> list[Difference]:
    """What differs, in the order in which a step computes it."""
    found = [
        Difference(step=step, what=what, name=name)
        for (what, name, value), again in zip(one, other, strict=False)
        if (what, name, value) != again
    ]
    if not found and len(one) != len(other):
        what, name, _ = max(one, other, key=len)[min(len(one), len(other))]
        found.append(Difference(step=step, what=what, name=name))
    return found


# -- one step, written down -----------------------------------------------------------------------


def _step(training: Trainer) -> list[Entry]:
    """Hashes of everything that one step comes to, in the order in which it comes about."""
    outputs: list[Entry] = []
    gradients: list[Entry] = []
    model, optimizer = training.parts.model, training.parts.optimizer
    with _listening(model, outputs), _before_step(optimizer, lambda: _gradients(model, gradients)):
        outcome = training.advance()
    return [
        *_given(outcome),
        *outputs,
        ("loss", "loss", repr(outcome.loss)),
        *gradients,
        *_state(model),
    ]


def _given(outcome: StepOutcome) -> Iterator[Entry]:
    yield "batch ids", "sample_ids", repr(list(outcome.sample_ids))
    for number, batch in enumerate(outcome.batches):
        yield "batch", str(number), _hash(batch)


def _state(model: nn.Module) -> Iterator[Entry]:
    for name, weight in model.named_parameters():
        yield "weight", name, _hash(weight.detach())
    for name, buffer in model.named_buffers():
        yield "buffer", name, _hash(buffer)


def _gradients(model: nn.Module, into: list[Entry]) -> None:
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            into.append(("gradient", name, _hash(weight.grad)))


@contextmanager
def _listening(model: nn.Module, into: list[Entry]) -> Iterator[None]:
    """Note what every layer without layers of its own gives, as it gives it."""

    def listen(name: str) -> Callable[..., None]:
        return lambda _module, _given, output: into.append(("output", name, _hash(output)))

    with ExitStack() as undo:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                undo.callback(module.register_forward_hook(listen(name)).remove)
        yield


@contextmanager
def _before_step(optimizer: torch.optim.Optimizer, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` when the gradients are complete, before they are used."""
    handle = optimizer.register_step_pre_hook(lambda *_: note())
    try:
        yield
    finally:
        handle.remove()


def _hash(value: Any) -> str:
    """A hash of the bits of anything a layer may take or give; of what has none, its type."""
    if isinstance(value, torch.Tensor):
        return hash_value(value.detach().cpu())
    if isinstance(value, Mapping):
        return hash_value([[str(key), _hash(each)] for key, each in value.items()])
    if isinstance(value, list | tuple):
        return hash_value([_hash(each) for each in value])
    known = value is None or isinstance(value, bool | int | float | str | bytes)
    return hash_value(value if known else type(value).__qualname__)
