"""Clones of batches and step data, which readers may hold while the training continues."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.capture.host_copy import (
    Ready,
    TensorCopies,
    capture_context,
    is_on_cuda,
)
from midstep.control.capture.sample_results import (
    TOO_LATE,
    as_floats,
    loss_fact,
    results_of_losses,
    shares_of,
    shown_results,
)
from midstep.control.panels import Panel
from midstep.control.samples.batch_parts import BatchParts, PartsDescription, SampleSlices
from midstep.control.samples.find_parts import find_parts
from midstep.control.samples.layout import SampleLayout
from midstep.control.samples.tensor_facts import per_sample
from midstep.control.samples.view import SampleView

MAX_DEPTH = 16
"""Containers nested deeper than this are not cloned, so that a clone always ends."""


@dataclass(frozen=True, kw_only=True)
class CapturedBatch:
    """The batch of one step, with its loss, labels and sample ids."""

    step: int
    """Index of the step, counted from 0: finished steps minus one."""
    batch: Any
    """Tensor, mapping or sequence of tensors, or a function that returns them."""
    loss: Any
    """The loss as the loop gave it; in a copy a float, or a tensor on the host."""
    labels: Any = None
    """One per sample, or a function that returns them; it is called when the batch is copied."""
    losses: Any = None
    """Per-sample losses, if the loop has them."""
    results: Any = None
    """Losses, shares of the loss and predictions of samples: a function, or text that says why
    there are none; in a copy the columns of all samples. See `sample_results`."""
    sample_ids: Any = None
    view: SampleView | None = None
    """What the user says about the samples."""
    etag: str = ""
    """Names this copy; empty before it is copied."""
    ready: Ready | None = None
    """What a reader must wait for."""

    def copy(self, etag: str) -> CapturedBatch:
        """A copy that shares no memory with the loop. It does not wait for a GPU."""
        copies = TensorCopies()
        batch = resolve(self.batch)
        count = find_parts(batch, self.view).layout.count
        results = self._results_of(0, count, 1, count) if self.losses is None else None
        copy = CapturedBatch(
            step=self.step,
            batch=clone_or_reason(batch, copies),
            loss=_copy_loss(self.loss, copies),
            labels=clone_or_reason(resolve(self.labels), copies),
            losses=clone_or_reason(self.losses, copies),
            results=clone_or_reason(results, copies),
            sample_ids=clone_or_reason(self.sample_ids, copies),
            view=self.view,
            etag=etag,
        )
        return replace(copy, ready=copies.take())

    def copy_samples(self, ranges: Iterable[tuple[int, int]], etag: str) -> CapturedSamples:
        """Copies of some samples, reduced to tiles before they are copied.

        Args:
            ranges: (first, stop) of the samples.
            etag: names the copy.
        """
        copies = TensorCopies()
        shown_parts = find_parts(resolve(self.batch), self.view)
        columns, count = (resolve(self.labels), self.sample_ids), shown_parts.layout.count
        parts = []
        for first, stop in ranges:
            start, end = min(first, count), min(stop, count)
            slices = [partial(per_sample, column, count, start, end) for column in columns]
            slices += [partial(self._results_of, start, end, shown_parts.layout.stride, count)]
            # A tensor type of the user may refuse to be sliced; `resolve` then gives the reason.
            copied = [clone_or_reason(resolve(each), copies) for each in slices]
            parts.append(
                _SamplePart(start, end, _copy_slices(shown_parts, start, end, copies), *copied)
            )
        return CapturedSamples(
            step=self.step,
            loss=_copy_loss(self.loss, copies),
            description=shown_parts.description,
            parts=tuple(parts),
            view=self.view,
            etag=etag,
            ready=copies.take(),
        )

    def _results_of(self, first: int, stop: int, stride: int, count: int) -> Any:
        """Columns of these samples: of losses that the loop gave, else what the step computed."""
        results = self.results
        # In a copy that is complete, the columns contain these losses already.
        if self.losses is not None and not isinstance(results, Mapping):
            results = results_of_losses(self.losses)
        if not callable(results):
            return results
        return resolve(partial(results, first, stop, stride, count))

    def known_losses(self) -> tuple[list[float], str | None]:
        """The losses of all samples, and which of them stand out. It waits for a GPU."""
        if self.losses is not None:  # even if there is not one for each sample
            losses = as_floats(self.losses)
            return losses, loss_fact(losses, shares_of(losses))
        results = self._all_results()
        return as_floats(results["losses"]), results["loss_fact"]

    def known_shares(self) -> list[float] | None:
        """The share of each sample in the loss; None if it is not known. It waits for a GPU."""
        if self.losses is not None:
            return shares_of(as_floats(self.losses))
        shares = self._all_results()["loss_shares"]
        return None if shares is None else as_floats(shares)

    def _all_results(self) -> dict[str, Any]:
        if self.ready is not None:
            self.ready.wait()
        count = find_parts(resolve(self.batch), self.view).layout.count
        return shown_results(self._results_of(0, count, 1, count), slice(0, count))

    @property
    def parts(self) -> BatchParts:
        """The parts of the batch that are shown."""
        return find_parts(self.batch, self.view)

    @property
    def layout(self) -> SampleLayout:
        """How its samples are shown."""
        return self.parts.layout

    @property
    def main_tensor(self) -> Any:
        """The input of the model; None if it is not a single tensor."""
        parts = self.parts
        return None if parts.layout.is_list else parts.tensor

    @property
    def is_late(self) -> bool:
        """Whether nobody viewed the step when its loss was computed: the next step says more."""
        return self.results is TOO_LATE

    def holds(self, first: int, count: int) -> bool:
        """True: this is the whole batch."""
        return first >= 0 and count >= 0

    def samples(self, first: int, count: int) -> ShownSamples:
        """These samples as tiles. On a reader's thread."""
        whole, parts = self.arrived(), self.parts
        layout = parts.layout
        results = self._results_of(0, layout.count, 1, layout.count)
        start, stop = min(first, layout.count), min(first + count, layout.count)
        labels, ids = (
            per_sample(values, layout.count, start, stop)
            for values in (self.labels, self.sample_ids)
        )
        is_reduced = layout.is_picture and layout.stride > 1
        return ShownSamples(
            step=self.step,
            loss=whole.loss,
            etag=self.etag,
            description=parts.description,
            view=self.view,
            first=start,
            stop=stop,
            slices=parts.cut(start, stop),
            unreduced=layout.view(parts.tensor, start, stop, stride=1) if is_reduced else None,
            labels=labels,
            sample_ids=ids,
            **shown_results(results, slice(start, stop)),
        )

    def arrived(self) -> CapturedBatch:
        """The same with the loss as a number, once the copies are complete. For readers."""
        if self.ready is not None:
            self.ready.wait()
        losses = self.losses
        if losses is None:
            losses = shown_results(self.results, slice(None))["losses"]
        return replace(self, loss=as_float(self.loss), losses=losses, ready=None)

    @property
    def nbytes(self) -> int:
        """Bytes of its main tensor."""
        return _nbytes(self.main_tensor)


@dataclass(frozen=True)
class _SamplePart:
    """Copies of adjacent samples."""

    first: int
    stop: int
    slices: SampleSlices
    labels: Any
    sample_ids: Any
    results: Any


@dataclass(frozen=True, kw_only=True)
class CapturedSamples:
    """Some samples of the batch of one step, reduced to tiles."""

    step: int
    loss: Any
    description: PartsDescription
    parts: tuple[_SamplePart, ...]
    view: SampleView | None
    etag: str
    ready: Ready | None

    @property
    def layout(self) -> SampleLayout:
        """How its samples are shown."""
        return self.description.layout

    @property
    def is_late(self) -> bool:
        """As of a `CapturedBatch`."""
        return any(part.results is TOO_LATE for part in self.parts)

    def holds(self, first: int, count: int) -> bool:
        """Whether these samples were captured."""
        return self._part(first, count) is not None

    def _part(self, first: int, count: int) -> _SamplePart | None:
        start, stop = min(first, self.layout.count), min(first + count, self.layout.count)
        return next((p for p in self.parts if p.first <= start and stop <= p.stop), None)

    def samples(self, first: int, count: int) -> ShownSamples:
        """These samples as tiles; `holds` must be true. On a reader's thread."""
        part = self._part(first, count)
        if part is None:
            raise ValueError(f"samples {first} to {first + count} were not captured")
        if self.ready is not None:
            self.ready.wait()
        start, stop = min(first, self.layout.count), min(first + count, self.layout.count)
        chosen = slice(start - part.first, stop - part.first)
        labels, ids = (_chosen(held, chosen) for held in (part.labels, part.sample_ids))
        return ShownSamples(
            step=self.step,
            loss=as_float(self.loss),
            etag=self.etag,
            description=self.description,
            view=self.view,
            first=start,
            stop=stop,
            slices=part.slices.each(lambda held: _chosen(held, chosen)),
            labels=labels,
            sample_ids=ids,
            **shown_results(part.results, chosen),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the tiles."""
        return sum(_nbytes(part.slices.values) for part in self.parts)


@dataclass(frozen=True, kw_only=True)
class ShownSamples:
    """Samples of a captured batch, as a reader gets them."""

    step: int
    """Index of the step, counted from 0."""
    loss: float | None
    etag: str
    """Names the capture that they come from."""
    description: PartsDescription
    view: SampleView | None
    first: int
    stop: int
    slices: SampleSlices
    """Their parts: images as tiles, the first tokens or values of each sample."""
    labels: Any
    sample_ids: Any
    losses: Any
    """The loss of each as a batch of one; None if they are not known."""
    loss_shares: Any
    """The share of each in the loss of the whole batch; they add up to 1 over the batch."""
    loss_note: str | None
    """Why losses are not known."""
    loss_fact: str | None
    """One sentence about the samples of the whole batch whose losses stand out."""
    predictions: Any
    """What the output of the step says of each: see `prediction_kind`."""
    probabilities: Any
    """The probability of each predicted class."""
    prediction_kind: str | None
    """`class` [n], `classes` [n, labels] (0 or 1), `tokens` [n, length], `map` [n, height, width]
    with classes, or `value` [n, …] as the model gave it."""
    unreduced: Any = None
    """The images in full, where the whole batch is held and its tiles have fewer pixels."""

    @property
    def layout(self) -> SampleLayout:
        """How the samples are shown."""
        return self.description.layout

    @property
    def values(self) -> Any:
        """What the model gets of these samples; None for kinds that no tensor has."""
        return self.slices.values


def _copy_slices(parts: BatchParts, first: int, stop: int, copies: TensorCopies) -> SampleSlices:
    slices = resolve(partial(parts.cut, first, stop))
    if not isinstance(slices, SampleSlices):  # the reason why they cannot be cut
        return SampleSlices()
    return slices.each(lambda part: clone_or_reason(part, copies))


def _chosen(held: Any, chosen: slice) -> Any:
    """Some entries of a copied part; None where `held` is the reason why it was not copied."""
    return None if held is None or isinstance(held, str) else held[chosen]


def _nbytes(tensor: Any) -> int:
    try:
        return int(getattr(tensor, "nbytes", 0))
    except (RuntimeError, TypeError):  # a sparse tensor
        return 0


def _copy_loss(loss: Any, copies: TensorCopies) -> Any:
    """The loss as a float; on CUDA a tensor on the host that arrives later."""
    if not is_on_cuda(loss):
        return as_float(loss)
    return clone_or_reason(loss, copies) if loss.numel() == 1 else None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where one entry of the step data comes from."""

    step: int
    """Finished steps after its step."""
    etag: str = ""
    """Names the copy."""
    ready: Ready | None = None
    """What a reader must wait for."""


@dataclass(frozen=True, kw_only=True)
class StepData:
    """The data that hooks pushed: the newest of each key."""

    step: int
    """Finished steps after the newest of the steps."""
    values: Mapping[str, Any]
    panels: Mapping[str, Panel] = field(default_factory=dict)
    """How to show them, by key, for those that have a panel."""
    additions: int = 0
    """How many times a command added or replaced an entry while the run was paused."""
    etag: str = ""
    """Names this state of the data."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Where each entry comes from: a running step captures only the keys in view."""

    def step_of(self, key: str) -> int:
        """Finished steps after the step that pushed `key`."""
        return self.origins[key].step if key in self.origins else self.step

    def etag_of(self, key: str) -> str | None:
        """The name of the copy of `key`; None if there is none."""
        return self.origins[key].etag if key in self.origins else None

    def arrived(self) -> StepData:
        """The same, once all copies are complete. For readers."""
        for origin in self.origins.values():
            if origin.ready is not None:
                origin.ready.wait()
        return self

    def of_step(self, step: int) -> Mapping[str, Any]:
        """The values that were pushed in one step."""
        return {key: value for key, value in self.values.items() if self.step_of(key) == step}


def clone(value: Any, copies: TensorCopies | None = None) -> Any:
    """`value` with every tensor in it detached and copied, containers rebuilt.

    A container that contains itself, or occurs twice, is rebuilt once. Other objects, and what is
    nested deeper than 16 levels, are returned as they are.

    Args:
        value: what to copy.
        copies: copies the tensors; a reader must wait for what it says.
    """
    copies = TensorCopies() if copies is None else copies
    copy = _Cloner(copies).clone(value, 0)
    copies.mark()
    return copy


class _Cloner:
    """One walk over a value, with the containers rebuilt so far by id: (original, copy)."""

    def __init__(self, copies: TensorCopies) -> None:
        self._copies = copies
        # The original is kept in the pair, so that its id is not given to another object meanwhile.
        self._rebuilt: dict[int, tuple[Any, Any]] = {}

    def clone(self, value: Any, depth: int) -> Any:
        # By methods, not by type: `control` works without torch and numpy.
        if hasattr(value, "detach") and hasattr(value, "clone"):
            return self._copies.copy(value)
        if isinstance(value, DeferredColumns):
            return value.clone_inputs(lambda held: self.clone(held, depth + 1))
        if hasattr(value, "__array__") and hasattr(value, "copy"):
            return value.copy()
        if depth >= MAX_DEPTH or not isinstance(value, Mapping | list | tuple):
            return value
        if id(value) in self._rebuilt:
            return self._rebuilt[id(value)][1]
        if isinstance(value, tuple):
            items = [self.clone(item, depth + 1) for item in value]
            return value._make(items) if hasattr(value, "_make") else tuple(items)
        copy: Any = {} if isinstance(value, Mapping) else []
        self._rebuilt[id(value)] = (value, copy)
        if isinstance(value, Mapping):
            copy.update((key, self.clone(item, depth + 1)) for key, item in value.items())
        else:
            copy.extend(self.clone(item, depth + 1) for item in value)
        return copy


def clone_or_reason(value: Any, copies: TensorCopies | None = None) -> Any:
    """A clone; or a line of text that says why there is none. Arguments as in `clone`."""
    try:
        with capture_context():
            return clone(value, copies)
    except Exception as error:  # noqa: BLE001 - out of memory, or a type of the user: training continues
        return f"<cannot be copied: {type(error).__name__}: {str(error)[:200]}>"


def resolve(data: Any) -> Any:
    """Step data itself, or the result of a function that was pushed instead of it."""
    # Not `callable`: modules and other callable objects are data.
    if not isinstance(data, FunctionType | MethodType | partial):
        return data
    try:
        with capture_context():
            return data()
    except Exception as error:  # noqa: BLE001 - a function of the user: training continues
        return f"<cannot be computed: {type(error).__name__}: {str(error)[:200]}>"


def as_float(value: Any) -> float | None:
    """A number or a one-element tensor as a float; None for anything else.

    On a GPU this waits for the device.
    """
    try:
        if isinstance(value, int | float):
            return float(value)
        count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
        return float(value.item()) if hasattr(value, "item") and count == 1 else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None  # complex, text, an integer larger than any float, a tensor on `meta`


def is_on_device(value: Any) -> bool:
    """Whether reading `value` waits for a device."""
    return getattr(getattr(value, "device", None), "type", "cpu") != "cpu"


def as_ids(value: Any) -> Sequence[int] | None:
    """Sample ids as integers; None if they are not integers."""
    if value is None:
        return None
    flat = value.tolist() if hasattr(value, "tolist") else value
    try:
        return [int(item) for item in flat]
    except (TypeError, ValueError, OverflowError):
        return None
