"""I3: whenever the stream has nothing more to tell, what it told last is the real state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from midstep.control import Command, CommandDefinition
from midstep.server.runs.run_table import RunTable
from midstep.server.stream import run_stream
from tests.served import PATIENCE_S, Served
from tests.server.test_stream import viewing

MEASURED = {"boundary_age_s", "steps_per_s"}
"""Not changes of the run but measurements of the moment of looking."""


@pytest.fixture(autouse=True)
def frequent_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ping means that nothing is new; it need not take a second to say so."""
    monkeypatch.setattr(run_stream, "PING_S", 0.02)


class Watcher:
    """What one viewer knows after each change, from the stream alone."""

    def __init__(self, served: Served, events: Iterator[tuple[str | None, dict[str, Any]]]) -> None:
        self.served, self._events = served, events
        _, hello = next(events)
        self.state, self.breakpoints = hello["state"], hello["breakpoints"]
        self.commands: dict[str, str] = {}
        self.steps = [self.state["step"]]

    def read_on(self) -> None:
        """Until the second ping: the first may have been on its way before the change."""
        pings = 0
        while pings < 2:
            _, message = next(self._events)
            kind = message["type"]
            pings = pings + 1 if kind == "ping" else 0
            if kind == "state":
                self.state = message["state"]
                self.steps.append(self.state["step"])
            elif kind == "breakpoints":
                self.breakpoints = message["breakpoints"]
            elif kind == "command":
                self.commands[message["command"]["id"]] = message["command"]["status"]

    def assert_shows_what_is(self) -> None:
        self.read_on()
        real = self.served.runs.get(self.served.run.run_id).state()
        assert _lasting(self.state) == _lasting(real)
        described = [each.describe() for each in self.served.controller.list_breakpoints()]
        assert self.breakpoints == described
        log = self.served.controller.queue.latest(limit=200)
        known = {record.command.id: record.status for record in log}
        assert self.commands == {name: known[name] for name in self.commands}
        assert self.steps == sorted(self.steps)

    def ask(self, verb: str, **payload: Any) -> None:
        identity = f"{verb}-{len(self.commands)}"
        answer = self.served.ask("POST", f"/debug/{verb}", {**payload, "id": identity})
        assert answer.status in (200, 409), answer.body
        self.assert_shows_what_is()
        assert identity in self.commands


def _lasting(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in MEASURED | {"dropped"}}


def test_a_later_state_has_the_larger_number_whichever_way_it_comes(served):
    with viewing(served) as events:
        told = [next(events)[1]["state"]["number"]]
        for verb in ("step", "resume", "pause"):
            answer = served.ask("POST", f"/debug/{verb}", {}).json()
            told.append(answer["number"])
            for _, message in events:
                if message["type"] == "state" and message["state"]["number"] >= answer["number"]:
                    break
        assert told == sorted(set(told))
        assert served.ask("GET", "/debug/state").json()["number"] == told[-1]


def test_a_later_view_of_the_same_run_continues_the_numbers(served):
    """A page that knows the first view would ignore the states of the second as old."""
    first = served.runs.get(served.run.run_id)
    told = [first.state()["number"]]
    for _ in range(3):
        served.ask("POST", "/debug/step", {})
        told.append(first.state()["number"])
    second = RunTable().add(served.run)
    told.append(second.state()["number"])
    assert told == sorted(set(told))
    assert told[-1] < 2**53  # a number in JavaScript


def test_the_state_on_the_stream_is_the_real_one_after_every_change(served):
    controller = served.controller
    with viewing(served) as events:
        watcher = Watcher(served, events)
        watcher.assert_shows_what_is()
        watcher.ask("step")
        watcher.ask("step", n=5)
        watcher.ask("run_until", step=20)
        watcher.ask("run_until", step=3)  # refused
        made = controller.add_breakpoint("every", n=10)
        watcher.assert_shows_what_is()
        watcher.ask("run_until", step=100)
        assert (watcher.state["step"], watcher.state["breakpoint"]["step"]) == (30, 30)
        controller.breakpoints.enable(made.id, enabled=False)
        watcher.assert_shows_what_is()
        controller.status.describe(lr=0.5, epoch=3)
        watcher.assert_shows_what_is()
        space = threading.Event()
        controller.boundary.hold("no space left", space.is_set)
        watcher.assert_shows_what_is()
        assert watcher.state["reason"] == "no space left"
        watcher.ask("pause")
        controller.remove_breakpoint(made.id)
        watcher.assert_shows_what_is()
        space.set()
        controller.submit(Command(name="step")).result(PATIENCE_S)
        watcher.assert_shows_what_is()
        watcher.ask("stop")
        assert watcher.state["state"] == "stopped"
        watcher.ask("resume")  # refused


def test_a_command_that_runs_is_shown_as_busy_and_then_as_paused(served):
    begun, go_on = threading.Event(), threading.Event()

    def work(_payload: object) -> str:
        begun.set()
        assert go_on.wait(PATIENCE_S)
        return "done"

    served.controller.queue.register(CommandDefinition(name="long", help="Wait."), work)
    with viewing(served) as events:
        watcher = Watcher(served, events)
        future = served.controller.submit(Command(name="long", id="long-1"))
        assert begun.wait(PATIENCE_S)
        watcher.assert_shows_what_is()
        assert (watcher.state["state"], watcher.state["busy_with"]) == ("busy", "long-1")
        go_on.set()
        future.result(PATIENCE_S)
        watcher.assert_shows_what_is()
        assert (watcher.state["state"], watcher.commands["long-1"]) == ("paused", "done")


@pytest.mark.parametrize("viewers", [8])
def test_many_changes_at_once_leave_every_viewer_with_the_real_state(served, viewers):
    """Nudges that meet a look in progress are not lost: the last change is always told."""

    def change() -> None:
        for count in range(30):
            made = served.controller.add_breakpoint("step", step=10**6 + count)
            served.controller.submit(Command(name="step")).result(PATIENCE_S)
            served.controller.breakpoints.enable(made.id, enabled=False)

    def view(found: list[Watcher], ready: threading.Barrier) -> None:
        with viewing(served) as events:
            watcher = Watcher(served, events)
            ready.wait(PATIENCE_S)
            changed.wait(PATIENCE_S)
            watcher.assert_shows_what_is()
            found.append(watcher)

    changed, ready, found = threading.Event(), threading.Barrier(viewers + 1), []
    threads = [threading.Thread(target=view, args=(found, ready)) for _ in range(viewers)]
    for thread in threads:
        thread.start()
    ready.wait(PATIENCE_S)
    change()
    changed.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [len(watcher.breakpoints) for watcher in found] == [30] * viewers
    assert [watcher.state["step"] for watcher in found] == [30] * viewers
