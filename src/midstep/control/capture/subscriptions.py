"""What is in view: subscriptions of streams and leases of single requests, merged into a plan.

A stream (an open page) names what it shows with a list that ends with the stream. A request without
a stream leases what it reads for five seconds. The training thread reads the flag `active`, and
while it is set asks for the plan of each step. A step that is not planned captures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from midstep.control.control_state import ControlState

Kind = Literal["batch", "step_data", "layers", "forces", "cosine_matrix", "weights"]
LAYERS_KEY = "layers"
"""Key of the step data that the kind `layers` means."""
LEASE_S = 5.0
MAX_LEASES = 64
"""The oldest lease ends when there are more: requests may name any key."""
MIN_INTERVAL_S = 0.1
"""At most ten running steps a second are captured."""
TOGETHER_S = 0.25
"""While some captures are still unread, the others wait so long for them: panels that are read
together then show the same step."""
UNREAD_INTERVAL_S = 1.0
"""A capture that nobody has read is replaced after this long."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """One thing that is in view.

    >>> Need(kind="batch", count=64).covers(Need(kind="batch", first=32, count=16))
    True
    """

    kind: Kind
    key: str | None = None
    """Key of the step data, or name of the tensor. None: all keys, or the default tensor."""
    first: int = 0
    """First sample of a batch."""
    count: int | None = None
    """Samples of a batch, reduced to tiles. None: the whole batch at full resolution."""

    @property
    def data_key(self) -> str | None:
        """The key of the step data; None for all keys, and for kinds that are not step data."""
        return LAYERS_KEY if self.kind == "layers" else self.key

    @property
    def is_data(self) -> bool:
        """Whether it is step data."""
        return self.kind in ("step_data", "layers")

    @property
    def is_tensor(self) -> bool:
        """Whether it needs clones of a weight."""
        return self.kind in ("forces", "cosine_matrix", "weights")

    def covers(self, other: Need) -> bool:
        """Whether a step that captures this has captured `other`."""
        if self.kind == "batch" or other.kind == "batch":
            return self.kind == other.kind and self._covers_samples(other)
        if self.is_data or other.is_data:
            is_same = self.kind == "step_data" and self.key is None
            return self.is_data and other.is_data and (is_same or self.data_key == other.data_key)
        # `weights` has no clone from before the step.
        return self.key == other.key and (self.kind != "weights" or other.kind == "weights")

    def _covers_samples(self, other: Need) -> bool:
        if self.count is None:
            return True
        if other.count is None:
            return False
        return self.first <= other.first and other.first + other.count <= self.first + self.count


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """What one step captures. It is replaced as a whole, so that it is read without the lock."""

    everything: bool = False
    """Everything: a step that was requested, or after which the loop may park."""
    needs: tuple[Need, ...] = ()
    keys: frozenset[str] = frozenset()
    """Keys of step data; also `key.name`, for an entry inside a mapping."""
    all_keys: bool = False
    ranges: tuple[tuple[int, int], ...] = ()
    """Samples of the batch as (first, stop), sorted and apart from each other."""
    whole_batch: bool = False
    tensors: tuple[Need, ...] = ()

    def __bool__(self) -> bool:
        return self.everything or bool(self.needs)

    @property
    def takes_batch(self) -> bool:
        """Whether the batch is captured, whole or in part."""
        return self.everything or self.whole_batch or bool(self.ranges)

    @property
    def takes_whole_batch(self) -> bool:
        """Whether the batch is captured whole."""
        return self.everything or self.whole_batch

    @property
    def takes_any_data(self) -> bool:
        """Whether any step data is captured."""
        return self.everything or self.all_keys or bool(self.keys)

    def takes_key(self, key: str) -> bool:
        """Whether step data of this key is captured."""
        if self.everything or self.all_keys or key in self.keys:
            return True
        return any(name.startswith(f"{key}.") for name in self.keys)


NOTHING = StepPlan()
EVERYTHING = StepPlan(everything=True)


def merge_ranges(needs: Iterable[Need]) -> tuple[tuple[int, int], ...]:
    """The samples of all needs as (first, stop), sorted; adjacent and overlapping ones are joined.

    >>> merge_ranges([Need(kind="batch", first=32, count=64), Need(kind="batch", count=40)])
    ((0, 96),)
    """
    merged: list[tuple[int, int]] = []
    for first, count in sorted((each.first, each.count or 0) for each in needs):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], first + count))
        else:
            merged.append((first, first + count))
    return tuple(merged)


@dataclass(kw_only=True)
class _Progress:
    """When a need was captured last, and whether it was read since."""

    captured_at: float | None = None
    is_new: bool = True
    """Whether no step was planned to capture it yet."""
    is_read: bool = True
    step: int | None = None
    """Finished steps after the captured step; None before the first capture."""
    every: int = 1
    """Steps between the last two captures."""

    def is_due(self, now: float) -> bool:
        if self.captured_at is None or self.is_read:
            return True
        return now - self.captured_at >= UNREAD_INTERVAL_S


@dataclass(kw_only=True)
class _Stream:
    """The list of one stream."""

    version: int = 0
    needs: dict[str, Need] = field(default_factory=dict)


class Subscriptions:
    """What is in view of one run. Changed under the lock of the state."""

    def __init__(self, state: ControlState) -> None:
        self._state = state
        self._streams: dict[str, _Stream] = {}
        self._leases: dict[Need, float] = {}
        """When each lease ends."""
        self._progress: dict[Need, _Progress] = {}
        """All needs of streams and leases; each once, however many name it."""
        self._tensor_keys: dict[str, tuple[str, ...]] = {}
        self._captured_at = float("-inf")
        """When the last step with a plan ended."""
        self.active = False
        """Whether anything is in view. Read without the lock."""

    # -- from any thread --------------------------------------------------------------------------

    def open(self, stream: str, needs: Iterable[Need] = ()) -> None:
        """Add a stream, perhaps with what it shows."""
        with self._state.lock:
            named = {str(number): need for number, need in enumerate(needs)}
            self._streams[stream] = _Stream(needs=named)
            self._refresh()

    def close(self, stream: str) -> None:
        """Remove a stream with its list; an unknown one is not an error."""
        with self._state.lock:
            if self._streams.pop(stream, None) is not None:
                self._refresh()

    def replace(self, stream: str, version: int, needs: Mapping[str, Need]) -> int | None:
        """Replace the list of a stream, unless a newer version is there.

        Returns:
            The version that counts now; None for an unknown stream.
        """
        with self._state.lock:
            held = self._streams.get(stream)
            if held is None:
                return None
            if version >= held.version:
                held.version, held.needs = version, dict(needs)
                self._refresh()
            return held.version

    def list_of(self, stream: str) -> dict[str, Need]:
        """The list of a stream, by the ids that the stream chose."""
        with self._state.lock:
            held = self._streams.get(stream)
            return {} if held is None else dict(held.needs)

    def read(self, need: Need, *others: Need) -> bool:
        """Note that `need` is read now. If no stream shows it, lease it for five seconds.

        Args:
            need: what is read.
            *others: other names of the same, such as that of the default tensor.

        Returns:
            Whether the lease is new: then the reader should wait for the next step.
        """
        with self._state.lock:
            now = self._state.clock()
            self._end_leases(now)
            covering = self._note_read(need, *others)
            shown = {each for stream in self._streams.values() for each in stream.needs.values()}
            if not shown.isdisjoint(covering):
                return False
            self._leases.pop(need, None)  # so that the newest is last
            self._leases[need] = now + LEASE_S
            while len(self._leases) > MAX_LEASES:
                del self._leases[next(iter(self._leases))]
            self._refresh()
            return not covering

    def note_read(self, need: Need) -> None:
        """Note that `need` is read now, without a lease."""
        if self.active:
            with self._state.lock:
                self._note_read(need)

    def _note_read(self, *needs: Need) -> list[Need]:
        """Under the lock: let all that covers one of these be captured again; returns them."""
        covering = [each for each in self._progress if any(map(each.covers, needs))]
        for each in covering:
            self._progress[each].is_read = True
        return covering

    def declare_tensor_keys(self, source: str, names: Iterable[str]) -> None:
        """Declare which step data the views of a tensor need; under the lock."""
        self._tensor_keys = {**self._tensor_keys, source: tuple(names)}

    def progress(self, need: Need) -> tuple[int | None, int]:
        """The step after which `need` was captured last, and one of how many steps it was."""
        with self._state.lock:
            held = self._progress.get(need)
            return (None, 1) if held is None else (held.step, held.every)

    def plan_next_step(self, *needs: Need) -> None:
        """Capture samples or step data in the step that begins at the next boundary.

        On the training thread. No viewer is needed.
        """
        plan = StepPlan(
            needs=needs,
            keys=frozenset(each.data_key for each in needs if each.data_key is not None),
            ranges=merge_ranges(each for each in needs if each.kind == "batch"),
        )
        captures = self._state.captures
        with self._state.lock:
            captures.next_plan = join_plans(captures.next_plan, plan)
            self._state.refresh_flags()

    # -- under the lock ---------------------------------------------------------------------------

    def tensors(self) -> list[Need]:
        """All needs of tensors, whether they are due or not."""
        return [need for need in self._progress if need.is_tensor]

    def plan(self) -> StepPlan:
        """What the step that begins captures; called by the training thread."""
        now = self._state.clock()
        self._end_leases(now)
        due = self._due(now)
        if not due:
            return NOTHING
        # Tensors are cloned together: one record holds those of one step.
        with_tensors = any(need.is_tensor for need in due)
        others = self.tensors() if with_tensors else []
        return self._make_plan(dict.fromkeys([*due, *others]))

    def _due(self, now: float) -> list[Need]:
        """What the next step should capture."""
        waited_s = now - self._captured_at
        if waited_s < MIN_INTERVAL_S:  # what is newly in view does not wait
            return [need for need, progress in self._progress.items() if progress.is_new]
        due = [need for need, progress in self._progress.items() if progress.is_due(now)]
        return due if len(due) == len(self._progress) or waited_s >= TOGETHER_S else []

    def note_captured(self, needs: Iterable[Need], step: int) -> None:
        """Note that a step has captured these needs.

        Args:
            needs: what was captured.
            step: finished steps after it.
        """
        now = self._captured_at = self._state.clock()
        for need in needs:
            held = self._progress.get(need)
            if held is not None:
                # After going back the distance says nothing.
                distance = 1 if held.step is None else max(1, step - held.step)
                held.captured_at, held.step, held.every, held.is_read = now, step, distance, False

    def repeat(self, needs: Iterable[Need]) -> None:
        """Let the next step capture these again, although nobody has read them yet."""
        for need in needs:
            if need in self._progress:
                self._progress[need].is_new = self._progress[need].is_read = True

    def _refresh(self) -> None:
        """Recompute what is in view after a change, and extend the plan of the step in progress."""
        needs = [need for stream in self._streams.values() for need in stream.needs.values()]
        earlier = self._progress
        self._progress = {
            need: earlier.get(need) or _Progress() for need in (*needs, *self._leases)
        }
        self.active = bool(self._progress)
        added = [need for need in self._progress if need not in earlier and not need.is_tensor]
        now = self._state.clock()
        # Batch and step data of the step in progress can still be captured; clones of weights from
        # before it cannot. At most ten steps a second are captured, but one may capture more.
        captures = self._state.captures
        if added and (captures.plan or now - self._captured_at >= MIN_INTERVAL_S):
            captures.extend_plan(self._make_plan(added))
        self._state.refresh_flags()

    def _end_leases(self, now: float) -> None:
        ended = [need for need, until in self._leases.items() if until <= now]
        if ended:
            for need in ended:
                del self._leases[need]
            self._refresh()

    def _make_plan(self, needs: Iterable[Need]) -> StepPlan:
        needs = tuple(needs)
        for need in needs:
            self._progress[need].is_new = False
        tensors = tuple(need for need in needs if need.is_tensor)
        keys = {need.data_key for need in needs if need.is_data}
        for need in tensors:
            keys.update(self._keys_of_tensor(need.key))
        batches = [need for need in needs if need.kind == "batch"]
        is_whole = any(need.count is None for need in batches)
        return StepPlan(
            needs=needs,
            keys=frozenset(key for key in keys if key is not None),
            all_keys=None in keys,
            ranges=() if is_whole else merge_ranges(batches),
            whole_batch=is_whole,
            tensors=tensors,
        )

    def _keys_of_tensor(self, name: str | None) -> Iterable[str]:
        if name is not None:
            return self._tensor_keys.get(name, ())
        return [key for keys in self._tensor_keys.values() for key in keys]


def join_plans(first: StepPlan, second: StepPlan) -> StepPlan:
    """What either of two plans captures."""
    if not first or second.everything:
        return second
    if not second or first.everything:
        return first
    needs = dict.fromkeys((*first.needs, *second.needs))
    is_whole = first.whole_batch or second.whole_batch
    return StepPlan(
        needs=tuple(needs),
        keys=first.keys | second.keys,
        all_keys=first.all_keys or second.all_keys,
        ranges=() if is_whole else merge_ranges(n for n in needs if n.kind == "batch"),
        whole_batch=is_whole,
        tensors=(*first.tensors, *second.tensors),
    )
