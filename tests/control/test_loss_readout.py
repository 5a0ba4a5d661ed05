"""The loss in the state: a number that no reader waits for, and that only the loop fetches."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from midstep.control import DebugController
from midstep.control.capture.loss_readout import COPY_EVERY_S, WAIT_EVERY_S, LossReadout
from tests.control.loop import IN_VIEW


class DeviceLoss:
    """A loss on a device; it notes who fetched it."""

    def __init__(self, value: float, kind: str = "mps") -> None:
        self.value, self.device, self.readers = value, SimpleNamespace(type=kind), []

    def detach(self):
        return self

    def numel(self) -> int:
        return 1

    def item(self) -> float:
        self.readers.append(threading.current_thread())
        return self.value


class Sink:
    def log_values(self, step, values) -> None:
        pass

    def event(self, moment, **fields) -> None:
        pass


class Arrival:
    def __init__(self) -> None:
        self.there = False

    def query(self) -> bool:
        return self.there


def asked_elsewhere(controller: DebugController) -> float | None:
    found = []
    reader = threading.Thread(target=lambda: found.append(controller.get_state()["loss"]))
    reader.start()
    reader.join(10)
    return found[0]


def test_whoever_asks_for_the_state_never_reads_the_device():
    controller = DebugController()
    controller.sinks.add(Sink())
    losses = [DeviceLoss(0.5), DeviceLoss(0.25)]
    for loss in losses:
        controller.capture_batch([1.0], loss)
        controller.wait_if_paused()
        assert asked_elsewhere(controller) == 0.5  # the second is less than a second away
    controller.boundary.finish()
    assert asked_elsewhere(controller) == 0.25
    readers = {reader for loss in losses for reader in loss.readers}
    assert readers == {threading.current_thread()}


def test_a_copy_is_read_once_it_has_arrived_and_the_next_is_sent_later():
    now, sent = [0.0], []
    reading = LossReadout(lambda: now[0])

    def send(loss) -> None:
        sent.append(loss)
        reading._host_copy, reading._copy_done = loss.value, Arrival()

    reading._start_copy = send
    first, second = DeviceLoss(2.0, "cuda"), DeviceLoss(1.0, "cuda")
    reading.note(first)
    reading.note(second)
    assert (sent, reading.read(second)) == ([first], None)
    reading._copy_done.there = True
    reading.note(second)
    assert (sent, reading.read(second)) == ([first], 2.0)  # too soon for another
    now[0] = COPY_EVERY_S
    reading.note(second)
    assert sent == [first, second]
    assert not first.readers
    assert not second.readers


def test_a_device_that_cannot_copy_is_waited_for_once_a_second():
    now = [0.0]
    reading = LossReadout(lambda: now[0])
    losses = [DeviceLoss(float(value)) for value in range(3)]
    reading.note(losses[0])
    reading.note(losses[1])
    assert reading.read(losses[1]) == 0.0
    now[0] = WAIT_EVERY_S
    reading.note(losses[2])
    assert reading.read(losses[2]) == 2.0
    assert [len(loss.readers) for loss in losses] == [1, 0, 1]


def test_after_going_back_no_old_loss_is_shown():
    controller = DebugController()
    controller.sinks.add(Sink())
    controller.capture_batch([1.0], DeviceLoss(0.5))
    controller.wait_if_paused()
    controller.boundary.move_to(0)
    assert controller.get_state()["loss"] is None


# -- the boundary when nobody looks ---------------------------------------------------------------


def test_step_listeners_are_called_while_somebody_looks_and_once_more_after():
    controller, called = DebugController(), []
    controller.sinks.add(Sink())
    controller.sinks.on_step_begin(lambda: called.append(controller.boundary.finished_steps))
    controller.boundary.enter()
    for _ in range(3):
        controller.wait_if_paused()
    assert called == [0]
    with controller.captures.viewer(*IN_VIEW):
        controller.wait_if_paused()
    for _ in range(3):
        controller.wait_if_paused()
    assert called[:2] == [0, 4]
    assert 7 not in called
    assert controller.boundary.boundaries == 8
    assert not controller.captures.is_observed


def test_a_sink_that_asks_to_stand_is_obeyed_at_the_same_boundary():
    controller, gone = DebugController(), []

    class Refusing(Sink):
        def log_values(self, step, values) -> None:
            if step == 2:
                controller.boundary.hold(
                    "disk full", lambda: bool(gone.append(step) or len(gone) > 1)
                )

    controller.sinks.add(Refusing())
    controller.boundary.enter()
    for _ in range(3):
        controller.boundary.log({"loss": 1.0})
        controller.wait_if_paused()
    assert gone == [2, 2]
