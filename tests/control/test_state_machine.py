"""The controller against a model of it: random verbs on a real training thread."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from midstep.control import Command, CommandDefinition, DebugController
from midstep.core.commands.catalog import StepPayload
from midstep.core.errors import ControlError
from tests.control.loop import PATIENCE_S, Loop, until

Predict = Callable[[int], bool]
"""Whether a breakpoint holds at the end of a step, counted from 1."""


class ControllerMachine(RuleBasedStateMachine):
    """Each rule asks, predicts admission, waits for the effect, and compares the counts."""

    def __init__(self) -> None:
        super().__init__()
        self.controller = DebugController()
        self.loop = Loop(self.controller, self.train)
        self.mode = "paused"
        self.breakpoints: dict[int, Predict] = {}
        self.hits: dict[int, list[int]] = {}
        self.controller.queue.register(
            CommandDefinition(
                name="back",
                payload=StepPayload,
                help="",
                needs_pause=True,
                moves_training=True,
            ),
            self.go_back,
        )

    def go_back(self, payload: StepPayload) -> None:
        """On the training thread: what a session does, without a training."""
        if payload.n > self.loop.made:
            raise ControlError("too far back")
        self.loop.made -= payload.n
        self.controller.boundary.move_to(self.loop.made)

    def train(self, step: int) -> None:
        """The loss of step k, counted from 1, is k modulo 7."""
        self.controller.boundary.log({"loss": float((step + 1) % 7)})

    @initialize()
    def start_paused(self) -> None:
        self.controller.pause()
        self.loop.start()
        until(lambda: self.controller.is_parked, self.controller)

    def ask(self, name: str, **payload: int) -> Future[object]:
        return self.controller.submit(Command(name=name, payload=payload))

    def expect_refusal(self, future: Future[object]) -> None:
        assert isinstance(future.exception(PATIENCE_S), ControlError)

    def predicted_stop(self, limit: int, start: int | None = None) -> int:
        """Where the loop parks at the latest: the limit, or a breakpoint on the way."""
        for step in range((self.loop.made if start is None else start) + 1, limit):
            if any(holds(step) for holds in self.breakpoints.values()):
                return step
        return limit

    def note_hits(self, before: int) -> None:
        """Every armed condition that held on the way counts, also where another stopped it."""
        for key, holds in self.breakpoints.items():
            self.hits[key] += [s for s in range(before + 1, self.loop.made + 1) if holds(s)]

    @rule()
    def pause(self) -> None:
        future = self.ask("pause")
        if self.mode == "stopped":
            return self.expect_refusal(future)
        future.result(PATIENCE_S)
        self.mode = "paused"
        return None

    @rule()
    def resume_and_pause_again(self) -> None:
        if self.mode == "stopped":
            return self.expect_refusal(self.ask("resume"))
        before = self.loop.made
        self.ask("resume").result(PATIENCE_S)
        until(lambda: self.loop.made > before, self.controller)
        self.ask("pause").result(PATIENCE_S)
        self.mode = "paused"
        assert self.loop.made == self.predicted_stop(self.loop.made, before)  # none was run over
        self.note_hits(before)
        return None

    @rule(n=st.integers(1, 20))
    def step(self, n: int) -> None:
        before, goal = self.loop.made, self.predicted_stop(self.loop.made + n)
        future = self.ask("step", n=n)
        if self.mode != "paused":
            return self.expect_refusal(future)
        assert future.result(PATIENCE_S) == {"step": goal}
        assert self.loop.made == goal
        self.note_hits(before)
        return None

    @rule(counts=st.lists(st.integers(1, 5), min_size=2, max_size=6))
    def steps_from_several_threads_add_up(self, counts: list[int]) -> None:
        if self.mode != "paused" or self.breakpoints:
            return
        before = self.loop.made
        futures: list[Future[object]] = []
        threads = [
            threading.Thread(target=lambda n=n: futures.append(self.ask("step", n=n)))
            for n in counts
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        ends = [future.result(PATIENCE_S)["step"] for future in futures]
        until(lambda: self.controller.is_parked, self.controller)
        assert self.loop.made == before + sum(counts) == max(ends)

    @rule(ahead=st.integers(-2, 30))
    def run_until(self, ahead: int) -> None:
        target = max(0, self.loop.made + ahead)
        refused = self.mode == "stopped" or target <= self.loop.made
        before, goal = self.loop.made, self.predicted_stop(target)
        future = self.ask("run_until", step=target)
        if refused:
            return self.expect_refusal(future)
        assert future.result(PATIENCE_S) == {"step": goal}
        assert self.loop.made == goal
        self.note_hits(before)
        return None

    @rule(n=st.integers(1, 8))
    def back(self, n: int) -> None:
        goal = self.loop.made - n
        future = self.ask("back", n=n)
        if self.mode != "paused" or goal < 0:
            return self.expect_refusal(future)
        future.result(PATIENCE_S)
        assert self.loop.made == goal
        return None

    def arm(self, holds: Predict, kind: str, **settings: object) -> None:
        if len(self.breakpoints) < 3 and self.mode == "paused":
            key = self.controller.add_breakpoint(kind, **settings).id
            self.breakpoints[key], self.hits[key] = holds, []

    @rule(ahead=st.integers(1, 15))
    def add_step_breakpoint(self, ahead: int) -> None:
        goal = self.loop.made + ahead
        self.arm(lambda step: step == goal, "step", step=goal)

    @rule(n=st.integers(1, 12))
    def add_every_breakpoint(self, n: int) -> None:
        self.arm(lambda step: step % n == 0, "every", n=n)

    @rule(limit=st.integers(0, 7), ahead=st.integers(0, 20))
    def add_expression_breakpoint(self, limit: int, ahead: int) -> None:
        first = self.loop.made + ahead
        self.arm(
            lambda step: step % 7 > limit and step >= first,
            "expression",
            expression=f"loss > {limit} and step >= {first}",
        )

    @rule(late=st.booleans())
    def remove_breakpoint(self, late: bool) -> None:
        if self.breakpoints:
            key = (max if late else min)(self.breakpoints)
            del self.breakpoints[key], self.hits[key]
            self.controller.remove_breakpoint(key)

    @rule()
    def switch_a_breakpoint_off_for_some_steps(self) -> None:
        if self.mode != "paused" or not self.breakpoints:
            return
        key = min(self.breakpoints)
        holds = self.breakpoints.pop(key)
        self.controller.breakpoints.enable(key, enabled=False)
        self.step(5)
        self.controller.breakpoints.enable(key, enabled=True)
        self.breakpoints[key] = holds

    @rule()
    def stop(self) -> None:
        if self.mode != "stopped" and self.loop.made < 60:
            return
        self.ask("stop").result(PATIENCE_S)
        self.loop.join()
        self.mode = "stopped"

    @invariant()
    def counts_agree_and_the_state_is_real(self) -> None:
        state = self.controller.get_state()
        assert state["step"] == self.loop.made
        assert state["parked"] == (self.mode == "paused")
        assert state["state"] == {"paused": "paused", "stopped": "stopped"}[self.mode]
        found = {each.id: each.hit_steps for each in self.controller.list_breakpoints()}
        assert found == self.hits

    def teardown(self) -> None:
        self.controller.stop()
        self.loop.join()


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def mixed_verbs(controller: DebugController, seed: int, log: list[Future[object]]) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        name = chance.choice(["pause", "resume", "step", "step", "run_until"])
        payload = {
            "step": {"n": chance.randint(1, 3)},
            "run_until": {"step": chance.randint(1, 9**6)},
        }
        log.append(controller.submit(Command(name=name, payload=payload.get(name, {}))))


def test_fifty_threads_get_an_answer_to_every_verb_in_one_total_order() -> None:
    controller = DebugController()
    loop = Loop(controller)
    loop.start()
    logs: list[list[Future[object]]] = [[] for _ in range(50)]
    threads = [
        threading.Thread(target=mixed_verbs, args=(controller, seed, log))
        for seed, log in enumerate(logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    controller.submit(Command(name="stop")).result(PATIENCE_S)
    loop.join()
    futures = [future for log in logs for future in log]
    assert len(futures) == 5000
    assert all(future.done() for future in futures)
    records = controller.queue.latest(limit=10_000)
    assert [record.seq for record in records] == list(range(1, 5002))
    assert all(record.has_ended for record in records)
    assert controller.get_state()["step"] == loop.made


def test_fifty_threads_of_single_steps_lose_and_double_none() -> None:
    controller = DebugController()
    controller.pause()
    loop = Loop(controller)
    loop.start()
    threads = [
        threading.Thread(target=lambda: [controller.step() for _ in range(20)]) for _ in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    until(lambda: controller.is_parked and loop.made == 1000, controller)
    controller.stop()
    loop.join()
    assert loop.made == 1000


PAIRS = ["pause", "resume", "step", "run_until", "stop"]


@pytest.mark.parametrize("first", PAIRS)
@pytest.mark.parametrize("second", PAIRS)
@pytest.mark.parametrize("start_paused", [False, True])
def test_every_pair_of_verbs_ends_or_is_refused_and_the_process_ends(
    first: str, second: str, start_paused: bool
) -> None:
    controller = DebugController()
    if start_paused:
        controller.pause()
    loop = Loop(controller)
    loop.start()
    payloads = {"run_until": {"step": 10**9}}
    futures = [
        controller.submit(Command(name=name, payload=payloads.get(name, {})))
        for name in (first, second)
    ]
    controller.stop()
    loop.join()
    for future in futures:
        assert future.exception(PATIENCE_S) is None or isinstance(future.exception(), ControlError)
