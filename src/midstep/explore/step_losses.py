"""Holds what each step computed its loss from, and computes the losses of its samples.

While the batch is in view, `StepLosses` holds references to what the loss was called with. They
are reduced to one number for each sample when the batch is copied, at the boundary. A large output
is reduced when the loss is computed, and is not held: the memory of the training stays the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.capture.sample_results import Results
from midstep.data.batch_structure import count_samples
from midstep.explore.guessed_losses import LossInputs, ModelCall, guesses, is_own_function
from midstep.explore.known_losses import known_loss
from midstep.explore.predictions import Prediction, predict
from midstep.explore.read_results import MIXES, LossGuess, read_results
from midstep.explore.row_order import row_heads
from midstep.explore.sample_losses import SampleLosses, sample_losses
from midstep.explore.tensor_trees import detached, tensors_in
from midstep.explore.work_budget import WorkBudget

HELD_BYTES = 32 << 20
"""Outputs of one step beyond this are not held if they can be reduced at once."""
MICRO_BATCHES_HELD = 64
MAP_SIDE = 96
"""Longest side of a predicted map whose output is not held."""
SEVERAL = (
    "The loss was computed {count} times for this batch, so the one that belongs to its samples is "
    "not known. {how_to}"
)
TOO_LARGE = "The output of this step was too large to keep; make one step to see its losses."
CHANGED = "The output was changed in place after the loss was computed, so samples have no losses."
SLOW = "Computing the losses of single samples takes {ms:.0f} ms, so not every step has them."


@dataclass(kw_only=True)
class _Call:
    """A loss that was computed, or a forward pass, in one micro-batch."""

    origin: LossInputs | ModelCall | None
    """None once it is reduced, or if there is a note."""
    is_guess: bool = False
    """Whether a forward pass was seen, and not the loss."""
    count: int = 1
    """Calls of the same kind in this micro-batch, which are not held."""
    note: str | None = None
    """Why it is neither held nor reduced."""
    output: Any = None
    """What the loss returned."""
    versions: tuple[int, ...] = ()
    heads: Mapping[str, Any] | None = None
    """What tells the order of the rows, if the losses were computed in both."""
    guesses: list[LossInputs] | None = None
    """Guesses of the loss that followed a forward pass."""
    reduced: tuple[list[SampleLosses], Prediction | None] | None = None
    """Losses and predictions of all samples, if they were computed at once."""

    @property
    def is_changed(self) -> bool:
        """Whether a tensor was changed in place since the call."""
        return self.origin is not None and self.versions != _versions(self.origin)


@dataclass(kw_only=True)
class _MicroBatch:
    """What was computed for one micro-batch."""

    losses: list[_Call] = field(default_factory=list)
    named: list[_Call] = field(default_factory=list)
    """Losses that the user has declared to be those of these samples."""
    forwards: list[_Call] = field(default_factory=list)


@dataclass(kw_only=True)
class _Step:
    """A finished step, whose losses are computed once, if at all."""

    calls: list[_Call]
    batches: Sequence[Any]
    logged: Any
    computed: list[list[SampleLosses]] | None = None


class StepLosses:
    """Collects what each step computed. All methods are called by the training thread.

    Args:
        loss_fn: the declared loss; None if there is none.
        how_to: a sentence that says how to declare it.
        is_pausing: whether the loop is about to park; then the losses are always computed.

    >>> loss = torch.nn.MSELoss()
    >>> output, target = torch.tensor([1.0, 3.0]), torch.zeros(2)
    >>> steps = StepLosses(loss, "Declare it.")
    >>> steps.loss_called(1, (output, target), {}, loss(output, target))
    >>> steps.take([target])(0, 2, 1, 2)["losses"]
    tensor([1., 9.])
    """

    def __init__(
        self,
        loss_fn: Any,
        how_to: str,
        *,
        is_pausing: Callable[[], bool] = lambda: True,
    ) -> None:
        self._loss_fn, self._how_to = loss_fn, how_to
        self._budget = WorkBudget(is_pausing)
        self._micro_batches: dict[int, _MicroBatch] = {}
        self._held_bytes = 0
        self._loss_guess = LossGuess()

    # -- during a step ----------------------------------------------------------------------------

    def loss_called(
        self,
        number: int,
        inputs: Sequence[Any],
        named: Mapping[str, Any],
        output: Any,
        *,
        batch: Any = None,
        is_shown: bool = True,
        is_named: bool = False,
    ) -> None:
        """Note a call of the loss.

        Args:
            number: of the micro-batch.
            inputs: its arguments.
            named: its keyword arguments.
            output: what it returned.
            batch: the micro-batch, if it is known.
            is_shown: whether the batch of this step is in view.
            is_named: whether the user has said that it is the loss of these samples.
        """
        held = self._micro_batch(number)
        if held is None:
            return
        origin = LossInputs(
            loss_fn=self._loss_fn, inputs=detached(tuple(inputs)), named=detached(dict(named))
        )
        call = _Call(origin=origin, output=detached(output), versions=_versions(origin))
        self._add(call, held.named if is_named else held.losses, batch, is_shown=is_shown)

    def model_called(
        self,
        number: int,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        output: Any,
        *,
        batch: Any = None,
        is_shown: bool = True,
    ) -> None:
        """Note a forward pass, for a loss whose calls are not seen; arguments as above."""
        held = self._micro_batch(number)
        if held is None or self._loss_guess.has_given_up:
            return
        origin = ModelCall.from_call(args, kwargs, output)
        call = _Call(origin=origin, versions=_versions(origin), is_guess=True)
        self._add(call, held.forwards, batch, is_shown=is_shown)

    def _micro_batch(self, number: int) -> _MicroBatch | None:
        if number not in self._micro_batches and len(self._micro_batches) >= MICRO_BATCHES_HELD:
            return None
        return self._micro_batches.setdefault(number, _MicroBatch())

    def _add(self, call: _Call, calls: list[_Call], batch: Any, *, is_shown: bool) -> None:
        if calls:  # which one belongs to the samples is unknown, so they are only counted
            calls[0].count += 1
        else:
            calls.append(call)
            self._hold(call, batch, is_shown=is_shown)

    def _hold(self, call: _Call, batch: Any, *, is_shown: bool) -> None:
        """Hold what a call computed with, or reduce it now if it is large."""
        size = sum(each.nbytes for each in tensors_in(call.origin))
        if self._held_bytes + size <= HELD_BYTES:
            self._held_bytes += size
        elif not is_shown or _is_capturing():
            call.note, call.origin = TOO_LARGE, None
        elif self._is_safe_now(call.origin):
            self._reduce_now(call, batch)

    def _reduce_now(self, call: _Call, batch: Any) -> None:
        if self._budget.is_spent():
            call.note = self._slow()
        else:
            with self._budget.spend():
                samples = count_samples(batch) or 0
                losses = self._reduce(call, samples or None, batch)
                stride = _map_stride(call.origin)
                call.reduced = losses, self._predict(call, samples, 0, samples, stride)
        call.origin = call.guesses = None

    def _slow(self) -> str:
        return SLOW.format(ms=1e3 * self._budget.cost_s)

    def _is_safe_now(self, origin: Any) -> bool:
        """Whether only torch is called: code of the user is called only between two steps."""
        if isinstance(origin, ModelCall):
            return not is_own_function(self._loss_fn)
        return known_loss(origin.loss_fn, origin.inputs, origin.named) is not None

    # -- after a step -----------------------------------------------------------------------------

    def clear(self) -> None:
        """Drop what was collected."""
        if self._micro_batches:
            self._micro_batches, self._held_bytes = {}, 0

    def take(self, batches: Sequence[Any], logged: Any = None) -> Results | str | None:
        """The results of the step that ends, for `Captures.capture`; then collecting starts again.

        Args:
            batches: its micro-batches, or the first of them, with numbers from 1.
            logged: the loss of the step, as the loop logged it.
        """
        micro_batches, self._micro_batches, self._held_bytes = self._micro_batches, {}, 0
        kept = [micro_batches.get(number + 1) for number in range(len(batches))]
        calls: list[_Call] = []
        for each in kept:
            call = self._only_call(each)
            if not isinstance(call, _Call):
                return call
            calls.append(call)
        if not calls:
            return None
        return partial(self._results, _Step(calls=calls, batches=list(batches), logged=logged))

    def _only_call(self, held: _MicroBatch | None) -> _Call | str:
        """The call that belongs to the samples of a micro-batch, or why there is none."""
        if held is None:
            return self._how_to
        for calls in (held.named, held.losses, held.forwards):
            if calls and calls[0].count == 1:
                return calls[0]
            if calls and not calls[0].is_guess:
                return SEVERAL.format(count=calls[0].count, how_to=self._how_to)
        return self._how_to

    # -- when the batch is copied -----------------------------------------------------------------

    def _results(
        self, step: _Step, first: int, stop: int, stride: int, count: int
    ) -> Mapping[str, Any]:
        """The columns of these samples; `count` samples are in the batch that is shown."""
        sizes = [count_samples(each) or 0 for each in step.batches]
        # Micro-batches of different shapes are not joined: the first one is shown.
        shown = len(sizes) if sum(sizes) == count else 1
        note = self._why_not(step, shown, sizes, count)
        if note is None and step.computed is None:
            step.computed = self._compute(step, sizes[:shown])
        losses = step.computed or [] if note is None else []
        return DeferredColumns(
            read_results,
            micro_batches=[[_fields(each) for each in tried] for tried in losses],
            predictions=self._predictions(step, sizes[:shown], first, stop, stride),
            first=first,
            stop=stop,
            note=note,
            otherwise=self._how_to if step.calls[0].is_guess else MIXES,
            loss_guess=self._loss_guess,
            heads=step.calls[0].heads if losses else None,
            batch_loss=step.logged if shown == len(sizes) else None,
        )

    def _why_not(self, step: _Step, shown: int, sizes: list[int], count: int) -> str | None:
        """Why no losses are computed for this step; None if they are."""
        calls = step.calls[:shown]
        if sizes[0] != count and sum(sizes) != count:
            return "The samples of this batch are not those of the loss."
        note = next((each.note for each in calls if each.note is not None), None)
        if note is not None:
            return note
        if any(each.is_changed for each in calls):
            return CHANGED
        if calls[0].is_guess and (
            self._loss_guess.has_given_up or _has_nothing_to_compare(calls, step.logged)
        ):
            return self._how_to
        needs_work = step.computed is None and any(each.reduced is None for each in calls)
        return self._slow() if needs_work and self._budget.is_spent() else None

    def _compute(self, step: _Step, sizes: list[int]) -> list[list[SampleLosses]]:
        """The losses of the shown micro-batches, which have these sizes."""
        logged = step.logged if len(step.calls) == 1 else None
        shown = zip(step.calls, sizes, step.batches, strict=False)
        if all(call.reduced is not None for call in step.calls[: len(sizes)]):
            return [self._reduce(*each) for each in shown]
        with self._budget.spend():
            return [self._reduce(*each, logged) for each in shown]

    def _reduce(
        self, call: _Call, samples: int | None, batch: Any, logged: Any = None
    ) -> list[SampleLosses]:
        """The losses of one micro-batch, by each guess if the call of the loss was not seen."""
        if call.reduced is not None:
            return call.reduced[0]
        if isinstance(call.origin, ModelCall):
            return self._reduce_guesses(call, call.origin, samples, batch)
        if call.origin is None:
            return []
        orders = [self._loss_guess.is_by_position or False]
        if self._loss_guess.is_by_position is None:
            call.heads = row_heads(call.origin.inputs, batch, samples or 0)
            orders = [False] if call.heads is None else [False, True]
        origin, whole = call.origin, _batch_loss(call.output, logged)
        return [
            sample_losses(
                origin.loss_fn,
                *origin.inputs,
                named=origin.named,
                samples=samples,
                batch_loss=whole,
                rows_first=order,
            )
            for order in orders
        ]

    def _reduce_guesses(
        self, call: _Call, origin: ModelCall, samples: int | None, batch: Any
    ) -> list[SampleLosses]:
        """The losses by each guess, or by the one that is right, at its place in the list."""
        call.guesses = guesses(origin, batch, self._loss_fn)
        return [
            sample_losses(each.loss_fn, *each.inputs, samples=samples, batch_loss=origin.own_loss)
            if self._loss_guess.index in (None, index)
            else SampleLosses()
            for index, each in enumerate(call.guesses)
        ]

    def _predictions(
        self, step: _Step, sizes: list[int], first: int, stop: int, stride: int
    ) -> dict[str, Any]:
        """The columns about the predictions of samples that may be of several micro-batches."""
        parts, begin = [], 0
        for call, size in zip(step.calls, sizes, strict=False):
            start, end = max(first - begin, 0), min(stop - begin, size)
            if start < end:
                parts.append(self._predict(call, size, start, end, stride))
            begin += size
        kinds = {None if each is None else (each.kind, each.values.shape[1:]) for each in parts}
        known = [each for each in parts if each is not None]
        if len(kinds) != 1 or not known:
            return {}
        certain = [each.probabilities for each in known if each.probabilities is not None]
        return {
            "prediction_kind": known[0].kind,
            "predictions": torch.cat([each.values for each in known]),
            "probabilities": torch.cat(certain) if len(certain) == len(known) else None,
        }

    def _predict(
        self, call: _Call, samples: int, first: int, stop: int, stride: int
    ) -> Prediction | None:
        if call.reduced is not None:
            whole = call.reduced[1]
            return None if whole is None else whole.rows(first, stop)
        index = self._loss_guess.index or 0
        origin = call.guesses[index] if call.guesses and index < len(call.guesses) else call.origin
        if not isinstance(origin, LossInputs) or call.is_changed or not samples:
            return None
        return predict(
            origin.loss_fn,
            origin.inputs,
            origin.named,
            samples=samples,
            first=first,
            stop=stop,
            stride=stride,
            rows_first=self._loss_guess.is_by_position or False,
        )


def _versions(origin: Any) -> tuple[int, ...]:
    """How often each tensor was changed in place so far."""
    return tuple(each._version for each in tensors_in(origin) if not each.is_inference())


def _map_stride(origin: Any) -> int:
    """The distance between the rows and columns of a map that its tile shows."""
    sides = [side for each in tensors_in(origin) if each.dim() == 4 for side in each.shape[2:]]
    return max(1, -(-max(sides, default=1) // MAP_SIDE))


def _batch_loss(output: Any, logged: Any) -> Any:
    """What a loss returned; if it was not reduced, the loss that the loop logged, if known."""
    is_vector = isinstance(output, Tensor) and output.numel() > 1
    return logged if is_vector and logged is not None else output


def _has_nothing_to_compare(calls: Sequence[_Call], logged: Any) -> bool:
    """Whether no loss was seen, so that no guess can be checked."""
    own = [each.origin.own_loss for each in calls if isinstance(each.origin, ModelCall)]
    return logged is None and any(each is None for each in own)


def _fields(losses: SampleLosses) -> dict[str, Any]:
    """The losses as a mapping, so that its tensors are copied for the reader."""
    return {each.name: getattr(losses, each.name) for each in dataclasses.fields(losses)}


def _is_capturing() -> bool:
    """Whether a CUDA graph is captured: then every operation would become part of it."""
    return torch.cuda._initialized and bool(torch.cuda.is_current_stream_capturing())
