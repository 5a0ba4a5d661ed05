"""The replay certificate: the same steps made twice from one snapshot, compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn

from midstep.core.commands.catalog import DETERMINISM_HEALTH
from midstep.session.checkpoint.fingerprint import hash_value

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts
    from midstep.session.state.training_state import TrainingState


class Certifiable(Protocol):
    """What can make the same steps twice: a `Trainer`."""

    @property
    def parts(self) -> TrainingParts:
        """What is trained."""

    @property
    def state(self) -> TrainingState:
        """Taken and restored."""

    def advance(self) -> Any:
        """Make one step; the outcome has sample_ids, batches and loss."""

    def replay(self) -> AbstractContextManager[None]:
        """Steps inside the block are repetitions: nothing is reported."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first thing that came out differently the second time."""

    step: int
    """The step in which it differs, counted as finished steps after it."""
    what: str
    """batch ids, batch, output, loss, gradient, weight or buffer."""
    name: str
    """Name of the tensor, or of the layer whose output it is."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The result of making steps twice."""

    steps: int
    """Steps that were made twice; fewer than requested if an earlier one differs."""
    first_step: int
    """The step they start from."""
    compared: int
    """Number of hashes that were compared."""
    first_difference: Difference | None
    tensor: Difference | None
    """The first gradient, weight or buffer that differs, if something else differs before it."""

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return self.first_difference is None

    @property
    def words(self) -> str:
        """The result in one line."""
        steps = f"{self.steps} step{'s' if self.steps > 1 else ''} from step {self.first_step:,}"
        first = self.first_difference
        if first is None:
            return f"Exact: {steps}, made twice, gave the same bits ({self.compared:,} compared)."
        text = f"Not exact: in step {first.step:,} the {first.what} {first.name!r} differs first"
        if self.tensor is not None and self.tensor != first:
            text += f"; of the tensors it is the {self.tensor.what} {self.tensor.name!r}"
        return f"{text}."

    def describe(self) -> dict[str, Any]:
        """The certificate as JSON."""
        return {"exact": self.exact, **asdict(self)}

    @classmethod
    def from_description(cls, description: Mapping[str, Any]) -> Certificate:
        """The certificate that `describe` described."""
        fields = {name: value for name, value in description.items() if name != "exact"}
        for name in ("first_difference", "tensor"):
            if fields[name] is not None:
                fields[name] = Difference(**fields[name])
        return cls(**fields)


Entry = tuple[str, str, str]
"""What, name and hash."""


def certify(trainer: Certifiable, steps: int) -> Certificate:
    """Make `steps` steps twice and compare them; the training is then where it was before.

    >>> from midstep.session.config import SessionConfig
    >>> from midstep.session.fit.trainer import Trainer, TrainingParts
    >>> model = nn.Linear(2, 1)
    >>> parts = TrainingParts(
    ...     model=model,
    ...     optimizers=[torch.optim.SGD(model.parameters(), lr=0.1)],
    ...     loss_fn=nn.MSELoss(),
    ...     train_loader=torch.utils.data.DataLoader([(torch.ones(2), torch.ones(1))] * 4),
    ... )
    >>> with Trainer(parts, SessionConfig()) as trainer:
    ...     certify(trainer, 2).exact, trainer.step
    (True, 0)
    """
    slices = certify_in_slices(trainer, steps)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def certify_in_slices(trainer: Certifiable, steps: int) -> Generator[float, None, Certificate]:
    """The same in slices that yield how much is done; closed early, it changes nothing either."""
    DETERMINISM_HEALTH.parse({"steps": steps})
    state = trainer.state
    start = state.take()
    first = state.step
    try:
        with trainer.replay():
            # Restored before the first pass, too: both passes then start from a restored state.
            state.restore(start)
            recorded: list[list[Entry]] = []
            for _ in range(steps):
                recorded.append(_step(trainer))
                yield len(recorded) / (2 * steps)
            state.restore(start)
            compared = 0
            for number, before in enumerate(recorded):
                again = _step(trainer)
                compared += len(before)
                differing = _differing(before, again, first + number + 1)
                if differing:
                    return _certificate(number + 1, first, compared, differing)
                yield (steps + number + 1) / (2 * steps)
    finally:
        # Also if it is cancelled or a step raises: a certificate never changes the training.
        state.restore(start)
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
    differing = [
        Difference(step=step, what=what, name=name)
        for (what, name, value), again in zip(one, other, strict=False)
        if (what, name, value) != again
    ]
    if not differing and len(one) != len(other):
        what, name, _ = max(one, other, key=len)[min(len(one), len(other))]
        differing.append(Difference(step=step, what=what, name=name))
    return differing


# -- the hashes of one step -----------------------------------------------------------------------


def _step(trainer: Certifiable) -> list[Entry]:
    """Make one step; the hashes of all its values, in the order in which they are computed."""
    model = trainer.parts.model
    with _recorded(model, trainer.parts.optimizer) as (outputs, gradients):
        outcome = trainer.advance()
    batches = (("batch", str(i), _hash(batch)) for i, batch in enumerate(outcome.batches))
    return [
        ("batch ids", "sample_ids", repr(list(outcome.sample_ids))),
        *batches,
        *outputs,
        ("loss", "loss", repr(outcome.loss)),
        *gradients,
        *(("weight", name, _hash(weight.detach())) for name, weight in model.named_parameters()),
        *(("buffer", name, _hash(buffer)) for name, buffer in model.named_buffers()),
    ]


@contextmanager
def _recorded(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> Iterator[tuple[list[Entry], list[Entry]]]:
    """Two lists that fill during a step: outputs of layers without sublayers, and gradients."""
    outputs: list[Entry] = []
    gradients: list[Entry] = []

    def record_output(name: str) -> Callable[..., None]:
        return lambda _module, _given, output: outputs.append(("output", name, _hash(output)))

    def record_gradients(*_: Any) -> None:
        for name, weight in model.named_parameters():
            if weight.grad is not None:
                gradients.append(("gradient", name, _hash(weight.grad)))

    with ExitStack() as undo:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                undo.callback(module.register_forward_hook(record_output(name)).remove)
        # In the pre-hook the gradients are complete, and the optimizer has not used them yet.
        undo.callback(optimizer.register_step_pre_hook(record_gradients).remove)
        yield outputs, gradients


def _hash(value: Any) -> str:
    """A hash of the bits of any input or output of a layer; of the type if it has no bits."""
    if isinstance(value, torch.Tensor):
        return hash_value(value.detach().cpu())
    if isinstance(value, Mapping):
        return hash_value([[str(key), _hash(each)] for key, each in value.items()])
    if isinstance(value, list | tuple):
        return hash_value([_hash(each) for each in value])
    known = value is None or isinstance(value, bool | int | float | str | bytes)
    return hash_value(value if known else type(value).__qualname__)
