"""Fifty HTTP clients at once; the command log and the facts are the oracle."""

from __future__ import annotations

import json
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from midstep.control import Command, CommandRecord
from midstep.control.command_queue import RUNNING
from midstep.facts import FactsReader
from midstep.server.debug import command_routes
from midstep.session import Run
from tests.control.loop import until
from tests.served import PATIENCE_S, Answer, Served, serving, serving_root

CLIENTS = 50
VERBS = ("pause", "resume", "step", "step", "run_until")
STEP_S = 0.001
"""What a step costs here: without any, the loop alone would keep the interpreter busy."""
RESET = struct.pack("ii", 1, 0)


def slow_loop(run: Run) -> None:
    controller = run.controller
    going = controller.boundary.enter()
    while going:
        time.sleep(STEP_S)
        run.log(loss=1.0 / (1 + controller.boundary.finished_steps))
        going = controller.wait_if_paused()


class Client:
    """One of many: remembers every answer by the id it sent, and the breakpoints it left."""

    def __init__(self, served: Served, number: int) -> None:
        self.served, self.number = served, number
        self.chance = random.Random(number)
        self.answers: dict[str, list[Answer]] = {}
        self.sent: dict[str, tuple[str, dict[str, int]]] = {}
        self.breakpoints: set[int] = set()
        self.made: list[int] = []

    def act(self, requests: int) -> None:
        for count in range(requests):
            if self.chance.random() < 0.25:
                self.change_breakpoints()
            else:
                self.ask(self.chance.choice(VERBS), f"c{self.number}-{count}")

    def ask(self, name: str, identity: str, **payload: int) -> None:
        """A verb, sent twice now and then: the second must be answered, not repeated."""
        chosen = payload or self.payload(name)
        self.sent[identity] = (name, chosen)
        for _ in range(1 + (self.chance.random() < 0.2)):
            answer = self.served.ask(
                "POST", f"{self.served.debug}/{name}", {**chosen, "id": identity}
            )
            self.answers.setdefault(identity, []).append(answer)

    def payload(self, name: str) -> dict[str, int]:
        here = self.served.controller.boundary.finished_steps
        ahead = self.chance.randint(-3, 30)
        drawn = {"step": {"n": self.chance.randint(1, 3)}, "run_until": {"step": here + ahead}}
        return {key: max(0, value) for key, value in drawn.get(name, {}).items()}

    def change_breakpoints(self) -> None:
        address = f"{self.served.debug}/breakpoints"
        if self.breakpoints:
            gone = self.breakpoints.pop()
            assert self.served.ask("DELETE", f"{address}/{gone}").status == 204
            assert self.served.ask("DELETE", f"{address}/{gone}").status == 404
            return
        here = self.served.controller.boundary.finished_steps
        condition = self.chance.choice(
            [
                {"kind": "step", "step": here + 20},
                {"kind": "every", "n": 40},
                {"kind": "expression", "expression": f"step == {here + 15} and loss > 0"},
            ]
        )
        answer = self.served.ask("POST", address, {"condition": condition})
        assert answer.status == 201
        self.breakpoints.add(answer.json()["id"])
        self.made.append(answer.json()["id"])


def all_at_once(clients: list[Client], work: Callable[[Client], None]) -> None:
    with ThreadPoolExecutor(len(clients)) as pool:
        for done in [pool.submit(work, client) for client in clients]:
            done.result()


def command_facts(served: Served) -> list[dict[str, Any]]:
    events = FactsReader(served.run.dir).events()
    return [event for event in events if event.get("kind") == "command"]


def assert_one_total_order(served: Served) -> list[CommandRecord]:
    """The log is contiguous and without repeats, and the facts hold the very same, once each."""
    log = served.controller.queue.latest(limit=10_000)
    assert [record.seq for record in log] == list(range(1, len(log) + 1))
    assert [record.command.id for record in log if not record.has_ended] == []
    facts = command_facts(served)
    assert sorted(fact["command_seq"] for fact in facts) == list(range(1, len(log) + 1))
    by_id = {fact["id"]: fact for fact in facts}
    assert len(by_id) == len(facts)
    for record in log:
        fact = by_id[record.command.id]
        assert {key: fact[key] for key in record.describe()} == record.describe()
    return log


def assert_replies_match(clients: list[Client], log: list[CommandRecord]) -> None:
    by_id = {record.command.id: record for record in log}
    asked = {identity for client in clients for identity in client.sent}
    others = {record.command.id for record in log if record.command.who == "breakpoint"}
    assert asked <= by_id.keys()
    assert len(by_id.keys() - asked - others) <= 2  # the test's own pauses
    for client in clients:
        for identity, (name, payload) in client.sent.items():
            record = by_id[identity]
            assert (record.command.name, dict(record.command.payload)) == (name, payload)
            for answer in client.answers[identity]:
                assert_reply_matches(answer, record)


def assert_reply_matches(answer: Answer, record: CommandRecord) -> None:
    told = answer.json()
    if answer.status == 200:
        assert record.status == "done"
        assert told["step"] >= record.step
    elif answer.status == 202:
        assert (told["id"], told["seq"]) == (record.command.id, record.seq)
    else:
        assert (answer.status, record.status) == (409, "refused")
        assert (told["command_id"], told["message"]) == (record.command.id, record.reason)


def assert_steps_were_admitted_in_order(log: list[CommandRecord]) -> None:
    """Replay the log: a step is refused exactly when the run was meant to run.

    Where a target or a breakpoint may just have closed the gate by itself, both are right.
    """
    meant, target = "pause", None  # the first record is the pause that the run started with
    for record in log:
        name, taken = record.command.name, record.status == "done"
        if target is not None and record.asked_step >= target - 1:
            meant, target = "either", None
        if name == "step" and meant != "either":
            assert (record.reason == RUNNING) is (meant == "run"), record
        if record.command.who == "breakpoint":
            meant = "pause" if meant == "pause" else "either"
        elif taken and name in ("pause", "resume", "run_until"):
            meant = "pause" if name == "pause" else "run"
            target = record.command.payload.get("step") if name == "run_until" else None


def assert_every_step_was_recorded_once(served: Served) -> None:
    steps = FactsReader(served.run.dir).series(["loss"])["loss"].step.tolist()
    assert steps == list(range(1, served.controller.boundary.finished_steps + 1))


def mix(served: Served, requests: int) -> list[Client]:
    clients = [Client(served, number) for number in range(CLIENTS)]
    all_at_once(clients, lambda client: client.act(requests))
    served.controller.submit(Command(name="pause")).result(PATIENCE_S)
    return clients


def assert_breakpoints_are_those_left(served: Served, clients: list[Client]) -> None:
    left = {each.id for each in served.controller.list_breakpoints()}
    assert left == set().union(*(client.breakpoints for client in clients))
    made = sorted(number for client in clients for number in client.made)
    assert made == list(range(1, len(made) + 1))


def step_together(served: Served, clients: list[Client], times: int) -> None:
    """Each steps `times` times; with some ids sent twice, the sum still comes out."""
    for each in served.controller.list_breakpoints():
        served.controller.remove_breakpoint(each.id)
    before = served.controller.boundary.finished_steps

    def steps(client: Client) -> None:
        for count in range(times):
            client.ask("step", f"s{client.number}-{count}", n=1 + count % 3)

    all_at_once(clients, steps)
    control = served.controller
    until(lambda: all(each.has_ended for each in control.queue.latest(limit=10_000)), control)
    wanted = len(clients) * sum(1 + count % 3 for count in range(times))
    log = assert_one_total_order(served)
    assert served.controller.boundary.finished_steps == before + wanted
    ends = [record.result["step"] for record in log if record.command.id.startswith("s")]
    assert ends == sorted(ends)  # granted in the order of the log


@pytest.mark.parametrize(
    "requests", [20, pytest.param(150, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
@pytest.mark.parametrize("opened", [serving, serving_root], ids=["one run", "many runs"])
def test_fifty_clients_make_one_total_order_and_each_reply_matches_it(
    tmp_path, requests, opened, monkeypatch
):
    monkeypatch.setattr(command_routes, "EFFECT_WAIT_S", 1.0)  # what others take back has no effect
    with opened(tmp_path, loop=slow_loop) as served:
        clients = mix(served, requests)
        log = assert_one_total_order(served)
        assert_replies_match(clients, log)
        assert_steps_were_admitted_in_order(log)
        assert_breakpoints_are_those_left(served, clients)
        names = Counter(record.command.name for record in log)
        assert names.keys() >= {"pause", "resume", "step", "run_until"}
        step_together(served, clients, max(2, requests // 5))
        assert_replies_match(clients, assert_one_total_order(served))
    assert_every_step_was_recorded_once(served)


def vanish(served: Served, body: dict[str, Any], *, reset: bool) -> None:
    """Send a step and be gone before the reply: politely, or with a reset."""
    data = json.dumps(body).encode()
    head = (
        f"POST {served.debug}/step HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {served.tokens.control}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    connection = served.raw(head.encode() + data)
    if reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_client_that_vanishes_and_retries_with_the_same_id_is_applied_once(served, reset):
    for count in range(20):
        body = {"n": 2, "id": f"gone-{count}"}
        vanish(served, body, reset=reset)
        answer = served.ask("POST", f"{served.debug}/step", body)
        assert (answer.status, answer.json()["step"]) == (200, 2 * (count + 1))
    assert served.controller.boundary.finished_steps == 40
    log = assert_one_total_order(served)
    assert [record.command.id for record in log[1:]] == [f"gone-{count}" for count in range(20)]


def test_one_id_sent_by_many_at_once_is_applied_once_and_answered_to_all(served):
    body = {"n": 3, "id": "the-one"}
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(served.ask, "POST", f"{served.debug}/step", body) for _ in range(20)]
    assert [done.result().status for done in asked] == [200] * 20
    assert served.controller.boundary.finished_steps == 3
    assert len(assert_one_total_order(served)) == 2
