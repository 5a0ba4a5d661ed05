"""Much at once: training goes on, memory stays bounded, and every command is answered once."""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest
import torch

from midstep.control import Command, DebugController
from midstep.core.errors import ControlError
from midstep.server.debug import command_routes
from midstep.session import Run
from tests.checkers.kill import assert_facts_survive, iterate_records
from tests.control.loop import until
from tests.served import PATIENCE_S, Served, serving

MIB = 1 << 20
SLACK_BYTES = 160 * MIB
"""Pools of threads, buffers of sockets and fragments; a leak of the load below would pass it."""


def quiet_loop(run: Run) -> None:
    """A loop of short steps that leaves the interpreter to others in between."""
    controller = run.controller
    going = controller.boundary.enter()
    while going:
        time.sleep(0.0005)
        run.log(loss=1.0 / (1 + controller.boundary.finished_steps))
        going = controller.wait_if_paused()


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def still_trains(served: Served) -> None:
    """The loop makes further steps while the load is on, and after it."""
    before = served.controller.boundary.finished_steps
    deadline = time.monotonic() + PATIENCE_S
    while served.controller.boundary.finished_steps < before + 5:
        assert time.monotonic() < deadline, "the training stands still"
        time.sleep(0.001)


@pytest.mark.parametrize(
    "count", [300, pytest.param(10_000, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])]
)
def test_commands_without_end_are_each_answered_once(tmp_path, count, monkeypatch):
    monkeypatch.setattr(command_routes, "EFFECT_WAIT_S", 0.01)  # a step of 10^12 is never reached
    with serving(tmp_path, paused=False, loop=quiet_loop) as served:
        body = {"command": "run_until", "payload": {"step": 10**12}}
        path = f"/api/v1/runs/{served.run.run_id}/commands"
        before = resident_bytes()
        _run_in_process(served, 10 * count)
        assert len(served.controller.queue.waiting) <= 10_000
        with ThreadPoolExecutor(8) as pool:
            sent = [pool.submit(_post, served, path, {**body, "id": f"c{i}"}) for i in range(count)]
            still_trains(served)
            statuses = {each.result() for each in sent}
        assert statuses <= {200, 202, 409}
        still_trains(served)
        served.controller.submit(Command(name="resume")).result(PATIENCE_S)
        assert len(served.controller.queue.latest(limit=10**6)) <= 10_000
        assert resident_bytes() - before < SLACK_BYTES


def _run_in_process(served: Served, count: int) -> None:
    """Commands from this process, so many that the log of commands forgets the first."""
    for _ in range(count):
        served.controller.submit(Command(name="resume"))


def _post(served: Served, path: str, body: dict) -> int:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    try:
        headers = {
            "Authorization": f"Bearer {served.tokens.control}",
            "Content-Type": "application/json",
        }
        connection.request("POST", path, json.dumps(body), headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_thousand_connections_leave_descriptors_and_memory(tmp_path):
    with serving(tmp_path, paused=False, loop=quiet_loop) as served:
        before, crowd = resident_bytes(), []
        descriptors = psutil.Process().num_fds()
        try:
            for _ in range(1000):
                crowd.append(socket.create_connection(("127.0.0.1", served.port), timeout=30))
            still_trains(served)
            assert served.ask("GET", "/debug/state").status == 200
            # Ours are a thousand; those that the server keeps are few.
            assert psutil.Process().num_fds() - descriptors < 1000 + 200
        finally:
            for each in crowd:
                each.close()
        assert resident_bytes() - before < SLACK_BYTES


def test_large_matrices_at_once_take_bounded_memory(tmp_path):
    rows = 1024
    with serving(tmp_path, paused=False, loop=quiet_loop) as served:
        weight = torch.randn(rows, rows)
        served.controller.watches.add_source("w", lambda: weight)
        asks = ["cosine_matrix?tensor=w&full=true&format=safetensors"] * 16
        path = f"{served.debug}/together?{urlencode([('ask', each) for each in asks])}"
        served.ask("GET", path)  # what is loaded once counts for nothing
        before = resident_bytes()
        with ThreadPoolExecutor(2) as pool:
            sent = [pool.submit(served.ask, "GET", path) for _ in range(2)]
            still_trains(served)
            answers = [each.result() for each in sent]
        assert {answer.status for answer in answers} == {200}
        assert max(len(answer.body) for answer in answers) <= 70 * MIB
        del answers, sent
        assert resident_bytes() - before < 4 * SLACK_BYTES
        still_trains(served)


def test_many_watches_stay_bounded(tmp_path):
    with serving(tmp_path, paused=False, loop=quiet_loop) as served:
        for number in range(40):
            weight = torch.randn(64, 8)
            served.controller.watches.add_source(f"w{number}", lambda weight=weight: weight)
        statuses = {
            served.ask(
                "POST", "/debug/watch", {"feature_ids": list(range(64)), "source": f"w{number}"}
            ).status
            for number in range(40)
        }
        assert statuses == {200, 422}  # 64 rows over all tensors
        still_trains(served)


@pytest.mark.soak
@pytest.mark.timeout(5400)
def test_fifty_clients_for_80_minutes_leave_a_training_that_goes_on(tmp_path, record_property):
    minutes = float(os.environ.get("SOAK_MINUTES", "80"))
    acknowledged: dict[str, str] = {}
    with serving(tmp_path, paused=False, loop=quiet_loop) as served:
        # What is loaded once counts for nothing.
        _load(served, 0.2, acknowledged, name="first")
        before = resident_bytes()
        counts = _load(served, minutes, acknowledged, name="then")
        grown = (resident_bytes() - before) / MIB
        still_trains(served)
        steps = served.controller.boundary.finished_steps
        facts = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/events?limit=1")
        assert facts.status == 200
        assert counts.get(500, 0) == 0
        assert grown < SLACK_BYTES / MIB
        control = served.controller
        until(lambda: all(each.has_ended for each in control.queue.latest(limit=10**6)), control)
    # The run has ended, and nobody writes.
    records = assert_facts_survive(served.run.dir)
    assert_each_command_is_a_fact_once(served.run.dir, acknowledged)
    answers = sum(counts.values())
    record_property(
        "figure",
        f"50 clients for {minutes:g} minutes: {answers:,} answers, none of them 500, "
        f"{steps:,} steps, {grown:.0f} MiB more memory; {records:,} facts numbered without a gap, "
        f"each of {len(acknowledged):,} acknowledged commands in them once; invariants broken: 0",
    )


def assert_each_command_is_a_fact_once(run_dir: Path, acknowledged: Mapping[str, str]) -> None:
    """Whatever was answered with 200, 202 or 409 is in the facts, once and under its name."""
    facts = [each for _, each in iterate_records(run_dir) if each.get("kind") == "command"]
    counts = Counter(str(each["id"]) for each in facts)
    assert {name: count for name, count in counts.items() if count != 1} == {}
    names = {str(each["id"]): str(each["command"]) for each in facts}
    assert {each: names.get(each) for each in acknowledged} == acknowledged
    numbers = sorted(int(each["command_seq"]) for each in facts)
    assert numbers == list(range(1, len(numbers) + 1))


COMMANDS: tuple[tuple[str, dict[str, int]], ...] = (
    ("step", {"n": 3}),
    ("pause", {}),
    ("resume", {}),
)
ACKNOWLEDGED = (200, 202, 409)
REQUESTS: tuple[Callable[[Served, str, random.Random], int], ...] = (
    lambda served, debug, _: served.ask("GET", f"{debug}/state").status,
    lambda served, debug, _: served.ask("GET", f"{debug}/together?ask=state&ask=rewind").status,
    lambda served, debug, _: served.ask("GET", f"/api/v1/runs/{served.run.run_id}/scalars").status,
    lambda served, debug, _: (
        served.ask("GET", f"/api/v1/runs/{served.run.run_id}/events?limit=50").status
    ),
    lambda served, debug, chance: (
        served.ask("POST", f"{debug}/step", bytes(chance.randbytes(64))).status
    ),
    lambda served, debug, _: served.ask("GET", f"{debug}/state", token="wrong").status,
)


def _load(
    served: Served, minutes: float, acknowledged: dict[str, str], *, name: str
) -> dict[int, int]:
    """Fifty clients with every kind of request, in any order; the number of each status.

    Args:
        served: the run.
        minutes: how long.
        acknowledged: takes the id and name of each command that was.
        name: begins the ids of this load.
    """
    counts: dict[int, int] = {}
    lock, over = threading.Lock(), time.monotonic() + 60 * minutes

    def act(number: int) -> None:
        chance, sent = random.Random(number), 0
        while time.monotonic() < over:
            chosen = chance.choice((*REQUESTS, *COMMANDS))
            identity = command = ""
            if isinstance(chosen, tuple):
                command, body = chosen
                sent += 1
                identity = f"{name}-{number}-{sent}"
                path = f"{served.debug}/{command}"
                status = served.ask("POST", path, {**body, "id": identity}).status
            else:
                status = chosen(served, served.debug, chance)
            with lock:
                counts[status] = counts.get(status, 0) + 1
                if command and status in ACKNOWLEDGED:
                    acknowledged[identity] = command

    with ThreadPoolExecutor(50) as pool:
        for done in [pool.submit(act, number) for number in range(50)]:
            done.result()
    served.ask("POST", f"{served.debug}/resume", {})
    return counts


def test_commands_that_nobody_takes_out_are_refused_at_last(monkeypatch):
    monkeypatch.setattr("midstep.control.command_queue.MAX_WAITING", 5)
    controller = DebugController()  # no loop takes commands out
    futures = [controller.submit(Command(name="pause")) for _ in range(8)]
    assert [future.done() for future in futures] == [False] * 5 + [True] * 3
    with pytest.raises(ControlError, match="wait for the run already"):
        futures[-1].result()
    with pytest.raises(ControlError):
        controller.queue.submit(Command(name="pause"), raise_invalid=True)
    assert not controller.submit(Command(name="stop")).done()
