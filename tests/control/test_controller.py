from __future__ import annotations

import threading
import weakref

import pytest
import torch

from midstep.control import Command, CommandDefinition, DebugController
from midstep.control.capture.subscriptions import Need
from midstep.core.commands.definition import NoPayload
from midstep.core.errors import ConfigError, ControlError
from tests.control.loop import PATIENCE_S, running, until


def answer(controller: DebugController, name: str, **payload: object) -> object:
    return controller.submit(Command(name=name, payload=payload)).result(PATIENCE_S)


def paused(controller: DebugController) -> None:
    answer(controller, "pause")


def test_pause_is_answered_once_the_thread_really_stands() -> None:
    controller = DebugController()
    with running(controller) as loop:
        paused(controller)
        assert controller.is_parked
        assert controller.get_state()["state"] == "paused"
        assert loop.made == controller.get_state()["step"]
        record = controller.queue.latest()[-1]
        assert record.step is not None
        assert record.step - record.asked_step <= 1


def test_step_lets_exactly_n_steps_pass() -> None:
    controller = DebugController()
    controller.pause()
    with running(controller) as loop:
        until(lambda: controller.is_parked, controller)
        assert loop.made == 0
        for n in (1, 1, 7, 3):
            before = loop.made
            assert answer(controller, "step", n=n) == {"step": before + n}
            assert loop.made == before + n


def test_step_while_running_is_refused_with_the_reason() -> None:
    controller = DebugController()
    with running(controller), pytest.raises(ControlError, match="pause it first"):
        controller.step()


def test_run_until_parks_when_the_step_is_reached() -> None:
    controller = DebugController()
    controller.pause()
    with running(controller) as loop:
        answer(controller, "run_until", step=123)
        assert (loop.made, controller.is_parked, controller.is_paused) == (123, True, True)
        with pytest.raises(ControlError, match="Already past step 100"):
            controller.run_until(100)


def test_pause_cuts_a_long_step_short() -> None:
    controller = DebugController()
    controller.pause()
    go = threading.Event()
    with running(controller, lambda _step: go.wait(0.001)) as loop:
        long = controller.submit(Command(name="step", payload={"n": 10**6}))
        until(lambda: loop.made > 3, controller)
        paused(controller)
        assert long.result(PATIENCE_S)["step"] < 10**6
        assert controller.is_parked


def test_stop_beats_pause_and_refuses_what_waits() -> None:
    controller = DebugController()
    inside, go = threading.Event(), threading.Event()

    def body(_step: int) -> None:
        inside.set()
        go.wait(PATIENCE_S)

    with running(controller, body) as loop:
        inside.wait(PATIENCE_S)
        pause = controller.submit(Command(name="pause"))
        stop = controller.submit(Command(name="stop"))
        go.set()
        stop.result(PATIENCE_S)
        with pytest.raises(ControlError, match="stopped"):
            pause.result(PATIENCE_S)
        loop.join()
    assert loop.made == 1
    assert controller.get_state()["state"] == "stopped"
    assert controller.wait_if_paused() is False


def test_stop_wakes_a_parked_thread() -> None:
    controller = DebugController()
    with running(controller) as loop:
        paused(controller)
        controller.stop()
        loop.join()
    with pytest.raises(ControlError, match="The run is stopped"):
        controller.resume()
    controller.stop()


def test_a_finished_run_refuses_verbs_and_ends_no_thread() -> None:
    controller = DebugController()
    with running(controller, steps=5) as loop:
        loop.join()
        assert controller.get_state()["state"] == "finished"
        with pytest.raises(ControlError, match="The run is finished"):
            controller.pause()


def test_a_pause_that_is_cancelled_leaves_the_run_running():
    controller = DebugController()
    pause, step = Command(name="pause"), Command(name="step")
    controller.submit(pause)
    behind = controller.submit(step)
    assert controller.queue.cancel(pause.id)
    assert not controller.is_paused
    assert controller.wait_if_paused()
    assert "pause it first" in str(behind.exception(0))
    assert controller.get_state()["state"] == "running"


def test_a_repeated_id_is_answered_not_repeated() -> None:
    controller = DebugController()
    controller.pause()
    with running(controller) as loop:
        command = Command(name="step", payload={"n": 2}, id="same")
        first, second = controller.submit(command), controller.submit(command)
        assert first is second
        first.result(PATIENCE_S)
        assert loop.made == 2
        assert controller.submit(command).result(0) == {"step": 2}
        assert loop.made == 2


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "3"])
def test_a_step_count_that_is_no_count_is_refused(n: object) -> None:
    controller = DebugController()
    controller.pause()
    with pytest.raises(ControlError, match="n must be a whole number"):
        controller.submit(Command(name="step", payload={"n": n})).result(0)


def test_an_unknown_command_names_those_there_are() -> None:
    with pytest.raises(ControlError, match=r"no command 'jump'.*pause"):
        DebugController().submit(Command(name="jump")).result(0)


def test_a_batch_is_cloned_while_a_pause_is_asked_for_and_not_before() -> None:
    controller = DebugController()
    batch = torch.zeros(2, 3)
    controller.capture_batch(batch, 0.5, 0)
    assert controller.get_batch() is None
    with running(controller) as loop:
        paused(controller)
        assert loop.made >= 0
    controller = DebugController()
    controller.pause()
    controller.capture_batch({"x": batch}, torch.tensor(0.5), 6, labels=[1, 2], sample_ids=[8, 9])
    batch.fill_(1.0)
    kept = controller.get_batch()
    assert kept is not None
    assert torch.equal(kept["batch"]["x"], torch.zeros(2, 3))
    assert (kept["step"], kept["loss"], kept["labels"], kept["sample_ids"]) == (
        6,
        0.5,
        [1, 2],
        [8, 9],
    )


def test_the_step_number_is_noted_with_nobody_watching() -> None:
    controller = DebugController()
    controller.capture_batch(torch.zeros(1), 0.0, 41)
    assert controller.wait_if_paused()
    assert controller.get_state()["step"] == 42
    controller.wait_if_paused()
    assert controller.get_state()["step"] == 43
    controller.begin_step(99)
    controller.wait_if_paused()
    assert controller.get_state()["step"] == 100


def test_viewers_get_at_most_ten_clones_a_second_while_running() -> None:
    now = [0.0]
    controller = DebugController(clock=lambda: now[0])
    seen = set()
    with controller.captures.viewer(Need(kind="batch")):
        for index in range(300):
            now[0] = index * 0.01
            controller.capture_batch(torch.tensor([float(index)]), 0.0, index)
            controller.wait_if_paused()
            kept = controller.get_batch()
            if kept is not None:
                seen.add(kept["step"])
    assert 25 <= len(seen) <= 30
    assert controller.captures.viewers == 0


def test_step_data_is_complete_while_parked_and_gone_in_the_next_step() -> None:
    controller = DebugController()
    controller.pause()
    live = torch.zeros(3)

    def body(step: int) -> None:
        controller.capture_step_data("layer", {"norm": live, "step": step})
        live.add_(1)

    with running(controller, body):
        answer(controller, "step")
        assert controller.list_step_data_keys() == ["layer"]
        assert torch.equal(controller.get_step_data("layer")["norm"], torch.zeros(3))
        assert controller.captures.reader.shown().step == 1
        answer(controller, "step")
        assert controller.get_step_data("layer")["step"] == 1
    with pytest.raises(ConfigError, match="no step data 'other'"):
        controller.get_step_data("other")
    with pytest.raises(ConfigError, match="force_detail"):
        controller.capture_step_data("keys", 1)


def test_step_data_is_cleared_when_the_loop_leaves_the_boundary_unwatched() -> None:
    controller = DebugController()
    controller.capture_step_data("a", 1)
    assert controller.get_step_data("a") == 1
    controller.wait_if_paused()
    assert controller.list_step_data_keys() == []


def test_commands_run_on_the_training_thread_in_order_with_progress() -> None:
    controller = DebugController()
    threads: list[str] = []

    def work(_payload: object) -> object:
        threads.append(threading.current_thread().name)
        yield 0.5
        return "made"

    controller.queue.register(CommandDefinition(name="scan", payload=NoPayload, help="Scan."), work)
    with running(controller):
        assert answer(controller, "scan") == "made"
        record = controller.queue.latest()[-1]
        assert (record.status, record.progress) == ("done", 0.5)
    assert threads == ["training"]


def test_a_command_that_raises_fails_and_training_goes_on() -> None:
    controller = DebugController()

    def broken(_payload: object) -> None:
        raise ValueError("no such layer")

    controller.queue.register(
        CommandDefinition(name="broken", payload=NoPayload, help="Breaks."), broken
    )
    with running(controller) as loop:
        with pytest.raises(ControlError, match="ValueError: no such layer"):
            answer(controller, "broken")
        before = loop.made
        until(lambda: loop.made > before, controller)


def test_a_busy_run_refuses_resume_and_names_the_command_which_can_be_cancelled() -> None:
    controller = DebugController()
    entered = threading.Event()

    def endless(_payload: object) -> object:
        while True:
            entered.set()
            yield 0.0

    controller.queue.register(
        CommandDefinition(name="endless", help="…", needs_pause=True), endless
    )
    with pytest.raises(ControlError, match="pause it first"):
        controller.submit(Command(name="endless")).result(0)
    with running(controller):
        paused(controller)
        future = controller.submit(Command(name="endless", id="e1"))
        entered.wait(PATIENCE_S)
        assert controller.get_state()["state"] == "busy"
        with pytest.raises(ControlError, match=r"busy with endless \(e1\)"):
            controller.resume()
        assert controller.queue.cancel("e1")
        with pytest.raises(ControlError, match="cancelled"):
            future.result(PATIENCE_S)
        assert controller.is_parked


def test_a_hold_parks_with_its_reason_and_lifts_itself() -> None:
    controller = DebugController()
    space = threading.Event()
    with running(controller) as loop:
        controller.boundary.hold("The disk is full.", space.is_set)
        until(lambda: controller.is_parked, controller)
        assert controller.get_state()["reason"] == "The disk is full."
        before = loop.made
        space.set()
        until(lambda: loop.made > before, controller)
        assert controller.get_state()["reason"] is None


def test_a_failed_run_stands_to_be_looked_at_until_resumed() -> None:
    controller = DebugController()
    ended = threading.Event()

    def train() -> None:
        controller.wait_if_paused()
        controller.boundary.fail("ValueError: bad batch", park=True)
        ended.set()

    thread = threading.Thread(target=train)
    thread.start()
    until(lambda: controller.is_parked, controller)
    state = controller.get_state()
    assert (state["state"], state["reason"]) == ("failed", "ValueError: bad batch")
    assert not ended.is_set()
    controller.resume()
    thread.join(PATIENCE_S)
    assert ended.is_set()
    assert controller.get_state()["state"] == "failed"


def test_a_failed_run_refuses_to_move_also_what_waited_before() -> None:
    controller, refused = DebugController(), []
    controller.pause()
    waiting = controller.submit(Command(name="step"))

    def look() -> None:
        until(lambda: controller.is_parked, controller)
        for name, payload in (("step", {}), ("run_until", {"step": 100})):
            asked = controller.submit(Command(name=name, payload=payload))
            refused.append(str(asked.exception(PATIENCE_S)))
        answer(controller, "resume")

    looker = threading.Thread(target=look)
    looker.start()
    controller.boundary.fail("ValueError: bad batch", park=True)
    looker.join(PATIENCE_S)
    assert refused == ["The run raised an exception. Resume or Stop ends it."] * 2
    assert str(waiting.exception(PATIENCE_S)) == refused[0]


def test_the_batch_of_a_step_that_failed_is_shown_with_nobody_there_before() -> None:
    controller, seen = DebugController(), []
    controller.sinks.add(Ledger())
    batch = torch.ones(2)
    controller.capture_batch(batch, 0.5, 7)
    assert controller.get_batch() is None

    def look() -> None:
        until(lambda: controller.is_parked, controller)
        seen.append(controller.get_batch())
        controller.resume()

    looker = threading.Thread(target=look)
    looker.start()
    controller.boundary.fail("ValueError: bad batch", park=True)
    looker.join(PATIENCE_S)
    batch.zero_()
    assert (seen[0]["step"], seen[0]["batch"].tolist()) == (7, [1.0, 1.0])


def test_a_failed_run_that_does_not_stand_lets_go_of_its_batch() -> None:
    controller = DebugController()
    batch = torch.ones(2)
    kept = weakref.ref(batch)
    controller.captures.hold_failed_batch(batch)
    del batch
    controller.boundary.fail("ValueError: bad batch")
    assert (kept(), controller.get_batch()) == (None, None)


class Ledger:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, object]]] = []
        self.events: list[dict[str, object]] = []

    def log_values(self, step: int, values: dict[str, object]) -> None:
        self.rows.append((step, dict(values)))

    def event(self, moment: str, **fields: object) -> None:
        self.events.append({"moment": moment, **fields})


def test_sinks_get_each_steps_scalars_once_and_every_command_even_refused_ones() -> None:
    controller, ledger = DebugController(), Ledger()
    controller.sinks.add(ledger)
    for index in range(3):
        controller.capture_batch(None, 0.5 * index, index)
        controller.boundary.log({"accuracy": index})
        controller.wait_if_paused()
    with pytest.raises(ControlError):
        controller.step()
    assert ledger.rows == [(i + 1, {"loss": 0.5 * i, "accuracy": i}) for i in range(3)]
    assert [(e["command"], e["status"]) for e in ledger.events] == [("step", "refused")]


def test_the_scalars_of_a_failing_step_reach_the_sinks() -> None:
    controller, ledger = DebugController(), Ledger()
    controller.sinks.add(ledger)
    controller.capture_batch(None, float("inf"), 0)
    controller.boundary.fail("ValueError: bad batch")
    assert ledger.rows == [(0, {"loss": float("inf")})]


def test_a_sink_that_raises_is_switched_off_and_training_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Ledger):
        def log_values(self, step: int, values: dict[str, object]) -> None:
            raise RuntimeError("sink is broken")

    controller = DebugController()
    controller.sinks.add(Broken())
    for index in range(3):
        controller.capture_batch(None, 0.0, index)
        assert controller.wait_if_paused()
    assert caplog.text.count("a sink raised and is off") == 1


def test_state_names_follow_the_life_of_a_run() -> None:
    controller = DebugController()
    assert controller.get_state()["state"] == "starting"
    inside, go = threading.Event(), threading.Event()

    def body(_step: int) -> None:
        inside.set()
        go.wait(PATIENCE_S)

    with running(controller, body):
        inside.wait(PATIENCE_S)
        controller.pause()
        state = controller.get_state()
        assert (state["state"], state["waiting_for"]) == ("pausing", "the step in progress")
        controller.status.describe(phase="in validation, 40 of 79")
        assert controller.get_state()["waiting_for"] == "in validation, 40 of 79"
        go.set()
        until(lambda: controller.is_parked, controller)
        assert controller.get_state()["state"] == "paused"
