"""A step captures what is in view, and no more: counted by the copies and their bytes."""

from __future__ import annotations

import gc
import math
import threading
import tracemalloc
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import pytest
import torch

from midstep.control import Command, DebugController
from midstep.control.capture.captured_data import CapturedBatch
from midstep.control.capture.host_copy import TensorCopies
from midstep.control.capture.subscriptions import (
    LEASE_S,
    MIN_INTERVAL_S,
    UNREAD_INTERVAL_S,
    Need,
    merge_ranges,
)
from tests.control.loop import PATIENCE_S, running, until

SIDE = 224
TICK_S = 1 / 32  # exact in binary


@dataclass
class Copied:
    """The copies of tensors so far."""

    sizes: list[int] = field(default_factory=list)

    def take(self) -> list[int]:
        sizes, self.sizes = self.sizes, []
        return sizes


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> Copied:
    counts, real = Copied(), TensorCopies.copy

    def copy(self: TensorCopies, tensor: Any) -> Any:
        counts.sizes.append(tensor.numel() * tensor.element_size())
        return real(self, tensor)

    monkeypatch.setattr(TensorCopies, "copy", copy)
    return counts


class Stepped:
    """A loop in the test's own thread, with a clock that the test sets."""

    def __init__(self, batch: Any = None, **weights: torch.Tensor) -> None:
        self.now = 0.0
        self.controller = DebugController(clock=lambda: self.now)
        self.batch = torch.zeros(256, 3, 32, 32) if batch is None else batch
        self.calls: list[str] = []
        self.weights = weights
        for name in weights:
            self.controller.watches.add_source(name, lambda name=name: self.weights[name])
        self.controller.boundary.enter()

    def step(self, by_s: float = 1.0, times: int = 1) -> None:
        """Make steps, each so much later than the last."""
        for _ in range(times):
            self.now += by_s
            for key in ("first", "second"):
                self.controller.capture_step_data(key, lambda key=key: self._push(key))
            self.controller.capture_batch(
                self.batch, 0.5, labels=list(range(256)), sample_ids=range(256)
            )
            self.controller.wait_if_paused()

    def _push(self, key: str) -> torch.Tensor:
        self.calls.append(key)
        return torch.zeros(4)

    @property
    def captures(self) -> Any:
        return self.controller.captures


def test_nothing_is_copied_for_a_viewer_who_shows_nothing(copied: Copied) -> None:
    loop = Stepped(weight=torch.zeros(3, 4))
    with loop.captures.viewer():
        loop.step(times=5)
        assert loop.captures.viewers == 1
    assert (copied.take(), loop.calls, loop.captures.recent) == ([], [], ())
    assert not loop.captures.is_observed


def test_only_the_shown_samples_are_copied_reduced_to_tiles(copied: Copied) -> None:
    loop = Stepped(torch.zeros(256, 3, SIDE, SIDE))
    with loop.captures.viewer(Need(kind="batch", count=64)):
        loop.step()
    side = -(-SIDE // 3)  # of 224 pixels every third, so that a tile has at most 96
    assert copied.take() == [64 * 3 * side * side * 4]
    (held,) = loop.captures.recent
    shown = held.samples(0, 64)
    assert tuple(shown.values.shape) == (64, 3, side, side)
    assert (shown.layout.count, shown.layout.stride, shown.layout.width) == (256, 3, SIDE)
    assert (shown.labels[-1], list(shown.sample_ids)[-1]) == (63, 63)
    assert loop.calls == []


def test_a_tile_has_the_pixels_of_its_sample() -> None:
    batch = torch.arange(8 * 3 * 200 * 100, dtype=torch.float32).reshape(8, 3, 200, 100)
    loop = Stepped(batch)
    with loop.captures.viewer(Need(kind="batch", first=2, count=3)):
        loop.step()
    shown = loop.captures.recent[0].samples(3, 2)
    assert torch.equal(shown.values, batch[3:5, :, ::3, ::3])
    batch.zero_()
    assert shown.values.any()


def test_two_streams_share_one_copy_of_the_union(copied: Copied) -> None:
    loop = Stepped()
    with (
        loop.captures.viewer(Need(kind="batch", count=64)),
        loop.captures.viewer(Need(kind="batch", first=32, count=64)),
        loop.captures.viewer(Need(kind="batch", count=64)),
    ):
        loop.step()
    assert copied.take() == [96 * 3 * 32 * 32 * 4]


def test_ranges_that_do_not_meet_stay_apart() -> None:
    needs = [Need(kind="batch", first=first, count=8) for first in (64, 0, 8, 100)]
    assert merge_ranges(needs) == ((0, 16), (64, 72), (100, 108))


def test_nothing_is_copied_after_the_stream_is_closed(copied: Copied) -> None:
    loop = Stepped(weight=torch.zeros(3, 4))
    viewer = loop.captures.viewer(
        Need(kind="batch", count=64), Need(kind="step_data"), Need(kind="forces")
    )
    loop.step()
    assert copied.take()
    assert loop.calls == ["first", "second"]
    viewer.close()
    loop.step(times=3)
    assert (copied.take(), loop.calls) == ([], ["first", "second"])
    assert not loop.captures.is_observed
    with pytest.raises(Exception, match="No step that changed weight"):  # its clones are gone
        loop.controller.weight_changes.get(patience_s=0)


def test_only_the_key_in_view_is_pushed_and_others_stay_known(copied: Copied) -> None:
    loop = Stepped()
    with loop.captures.viewer(Need(kind="step_data", key="second")):
        loop.step()
    assert (loop.calls, len(copied.take())) == (["second"], 1)
    assert list(loop.captures.reader.shown().values) == ["second"]
    assert loop.controller.get_state()["step_data_keys"] == ["second", "first"]


def test_each_key_keeps_its_own_step() -> None:
    loop = Stepped()
    first = loop.captures.viewer(Need(kind="step_data", key="first"))
    loop.step()
    first.close()
    with loop.captures.viewer(Need(kind="step_data", key="second")):
        loop.step(times=2)
    shown = loop.captures.reader.shown()
    assert (shown.step_of("first"), shown.step_of("second")) == (1, 3)


def test_only_the_tensor_in_view_is_cloned() -> None:
    loop = Stepped(small=torch.zeros(2, 3), large=torch.zeros(5, 7))
    with loop.captures.viewer(Need(kind="forces", key="large")):
        loop.step(times=3)
        record = loop.controller.weight_changes._record
    assert record is not None
    assert (list(record.before), list(record.after)) == (["large"], ["large"])


def test_the_weights_alone_need_no_clone_from_before_the_step() -> None:
    loop = Stepped(small=torch.zeros(2, 3))
    with loop.captures.viewer(Need(kind="weights")):
        loop.step(times=3)
        record = loop.controller.weight_changes._record
    assert record is not None
    assert (list(record.before), list(record.after)) == ([], ["small"])


def test_forces_capture_the_step_data_that_they_are_computed_from() -> None:
    loop = Stepped(small=torch.zeros(2, 3))
    loop.controller.weight_changes.declare_extra_update("small", delta_key="second.delta")
    with loop.captures.viewer(Need(kind="forces", key="small")):
        loop.step(times=2)  # its weights from before the first one are not there
    assert loop.calls == ["second"]


# -- how often ------------------------------------------------------------------------------------


def steps_captured(loop: Stepped, steps: int, by_s: float, *, reads: bool) -> list[int]:
    captured = []
    with loop.captures.viewer(Need(kind="batch", count=4)):
        for _ in range(steps):
            loop.step(by_s)
            newest = loop.captures.recent[0].step
            if newest not in captured:
                captured.append(newest)
                if reads:
                    loop.captures.reader.read_samples(0, 4, patience_s=0)
    return captured


def test_what_is_read_is_captured_ten_times_a_second() -> None:
    captured = steps_captured(Stepped(), 50, TICK_S, reads=True)
    # Planned when the time is over, captured in the step after that.
    assert {b - a for a, b in pairwise(captured)} == {math.ceil(MIN_INTERVAL_S / TICK_S) + 1}


def test_what_nobody_reads_is_captured_once_a_second() -> None:
    captured = steps_captured(Stepped(), 160, TICK_S, reads=False)
    assert {b - a for a, b in pairwise(captured)} == {round(UNREAD_INTERVAL_S / TICK_S) + 1}


def test_panels_that_are_read_together_show_the_same_step() -> None:
    loop = Stepped()
    needs = Need(kind="batch", count=4), Need(kind="step_data", key="first")
    with loop.captures.viewer(*needs):
        loop.step(TICK_S)
        loop.captures.reader.read_samples(0, 4, patience_s=0)  # the other is read a moment later
        loop.step(TICK_S, times=4)
        loop.captures.reader.read_step_data("first", patience_s=0)
        loop.step(TICK_S, times=2)
        shown = loop.captures.reader.shown()
        assert loop.captures.recent[0].step + 1 == shown.step_of("first") > 5


def test_a_lease_ends_after_five_seconds(copied: Copied) -> None:
    loop = Stepped()
    loop.step()
    loop.captures.reader.read_samples(0, 4, patience_s=0)
    loop.step()
    assert copied.take()
    loop.step(LEASE_S)
    assert (copied.take(), loop.captures.is_observed) == ([], False)
    loop.step(times=3)
    assert copied.take() == []


def test_reading_again_renews_the_lease(copied: Copied) -> None:
    loop = Stepped()
    loop.captures.reader.read_samples(0, 4, patience_s=0)
    for _ in range(4):
        loop.step(1.0, times=int(LEASE_S) - 1)
        assert copied.take()
        loop.captures.reader.read_samples(0, 4, patience_s=0)


def test_reading_what_a_stream_shows_leases_nothing(copied: Copied) -> None:
    loop = Stepped()
    with loop.captures.viewer(Need(kind="batch", count=64)):
        loop.step()
        loop.captures.reader.read_samples(16, 16, patience_s=0)
    copied.take()
    loop.step(times=2)
    assert copied.take() == []


def test_leases_of_many_names_are_bounded() -> None:
    loop = Stepped()
    for number in range(1000):
        loop.captures.reader.read_step_data(f"key {number}", patience_s=0)
    assert len(loop.captures.subscriptions._leases) <= 64


def test_a_lower_version_of_a_list_is_ignored() -> None:
    loop = Stepped()
    with loop.captures.viewer() as viewer:
        held = loop.captures.subscriptions
        assert held.replace(viewer.id, 7, {"a": Need(kind="layers")}) == 7
        assert held.replace(viewer.id, 6, {"b": Need(kind="forces")}) == 7
        assert list(held.list_of(viewer.id)) == ["a"]
        assert held.replace(viewer.id, 7, {}) == 7
        assert not held.active
    assert held.replace(viewer.id, 8, {}) is None


def test_memory_stays_flat_while_a_page_reads() -> None:
    loop = Stepped(torch.zeros(8, 3, 16, 16), weight=torch.zeros(3, 4))
    needs = Need(kind="batch", count=4), Need(kind="step_data"), Need(kind="forces")

    def read(steps: int) -> None:
        for _ in range(steps):
            loop.step(0.5)
            loop.captures.reader.read_samples(0, 4, patience_s=0)
            loop.captures.reader.read_step_data("first", patience_s=0)
            loop.controller.weight_changes.get(patience_s=0)
            loop.captures.data.published.arrived()
        loop.calls.clear()

    with loop.captures.viewer(*needs):
        loop.step(0.5, times=3)
        read(200)
        tracemalloc.start()
        try:
            read(50)
            before = tracemalloc.get_traced_memory()[0]
            read(500)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
    assert grown < 500 * 20, f"{grown / 500:.0f} bytes a step"


# -- the step in progress -------------------------------------------------------------------------


def test_the_first_reader_gets_the_batch_of_the_step_in_progress() -> None:
    controller, begun, goes_on = DebugController(), threading.Event(), threading.Event()

    def body(step: int) -> None:
        if step == 2:
            begun.set()
            goes_on.wait(PATIENCE_S)
        controller.capture_batch(torch.full((4, 64), float(step)), 0.5)

    with running(controller, body, steps=4):
        begun.wait(PATIENCE_S)
        answers: list[Any] = []
        reader = threading.Thread(
            target=lambda: answers.append(
                controller.captures.reader.read_samples(0, 2, patience_s=60)
            )
        )
        reader.start()
        until(lambda: controller.captures.clones_step, controller)
        goes_on.set()
        reader.join(PATIENCE_S)
    assert answers[0].step == 2
    assert answers[0].samples(0, 2).values[0, 0, 0, 0] == 2.0


def test_many_readers_do_not_all_wait() -> None:
    controller, goes_on = DebugController(), threading.Event()

    def body(step: int) -> None:
        if step == 1:
            goes_on.wait(PATIENCE_S)

    def read(key: str) -> None:
        controller.captures.reader.read_step_data(key, patience_s=PATIENCE_S)

    with running(controller, body):
        until(lambda: controller.boundary.finished_steps == 1, controller)
        readers = [threading.Thread(target=read, args=(f"key {n}",)) for n in range(40)]
        for reader in readers:
            reader.start()
        try:
            until(lambda: sum(each.is_alive() for each in readers) == 8, controller)
        finally:
            controller.stop()
            goes_on.set()
        for reader in readers:
            reader.join(PATIENCE_S)


# -- stepping and pausing -------------------------------------------------------------------------


def test_a_stepped_run_shows_everything_without_a_subscription() -> None:
    loop = Stepped()
    loop.controller.pause()
    with running(loop.controller, lambda _step: loop.controller.capture_batch(loop.batch, 0.5)):
        loop.controller.submit(Command(name="step")).result(PATIENCE_S)
        batch = loop.controller.get_batch()
    assert batch is not None
    assert batch["batch"].shape == loop.batch.shape


def test_a_run_paused_at_full_speed_shows_batch_and_loss_of_its_last_step() -> None:
    controller = DebugController()

    def body(step: int) -> None:
        controller.capture_batch(torch.full((4, 64), float(step)), float(step), labels=[1, 2, 3, 4])

    # Something of the batch is in view, so that samples of the last step may be copied already.
    with controller.captures.viewer(Need(kind="batch", count=2)), running(controller, body):
        until(lambda: controller.boundary.finished_steps > 50, controller)
        controller.submit(Command(name="pause")).result(PATIENCE_S)
        at = controller.boundary.finished_steps
        batch = controller.get_batch()
    assert batch is not None
    assert (batch["step"], batch["loss"], batch["labels"]) == (at - 1, at - 1.0, [1, 2, 3, 4])
    assert batch["batch"].shape == (4, 64)


# -- a GPU ----------------------------------------------------------------------------------------


class DeviceTensor:
    """A tensor of one element on CUDA; reading it waits for the device, copying it does not."""

    device = torch.device("cuda")
    shape: tuple[int, ...] = ()
    dtype = "torch.float32"

    def __init__(self, readers: list[str]) -> None:
        self.readers = readers

    def detach(self) -> DeviceTensor:
        return self

    def clone(self) -> DeviceTensor:
        return self

    def numel(self) -> int:
        return 1

    def item(self) -> float:
        self.readers.append(threading.current_thread().name)
        return 0.25


class Event:
    """Records that it was waited for, and by whom."""

    waited: ClassVar[list[str]] = []

    def __init__(self, *, blocking: bool) -> None:
        assert blocking, "a reader must not spin"

    def record(self, _stream: object) -> None: ...

    def synchronize(self) -> None:
        self.waited.append(threading.current_thread().name)


def test_the_loss_of_a_shown_step_is_read_by_the_reader_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: None)
    readers: list[str] = []
    batch = CapturedBatch(step=0, batch=torch.zeros(4, 64), loss=DeviceTensor(readers))
    for captured in (batch.copy("a"), batch.copy_samples([(0, 2)], "b")):
        assert (readers, Event.waited) == ([], [])
        assert captured.samples(0, 2).loss == 0.25
        me = threading.current_thread().name
        assert (readers, Event.waited) == ([me], [me])
        readers.clear()
        Event.waited.clear()


def test_captures_run_without_gradients_and_autocast() -> None:
    loop = Stepped()
    seen: list[tuple[bool, bool]] = []

    def measured() -> float:
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return 1.0

    with loop.captures.viewer(Need(kind="step_data", key="measured")):
        loop.step()
        loop.now += 1.0
        loop.controller.wait_if_paused()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loop.controller.capture_step_data("measured", measured)
            assert torch.is_autocast_enabled("cpu")
        loop.controller.wait_if_paused()
    assert seen == [(False, False)]
