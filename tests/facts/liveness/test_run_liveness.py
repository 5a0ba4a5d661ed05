"""The state of a run, from its records, its lock and its lease."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from midstep.core.files.storage import replace_json
from midstep.core.moments import Moment
from midstep.facts import (
    FactsWriter,
    HeartbeatWatch,
    Lease,
    LoopProgress,
    end_state,
    read_lease,
)
from midstep.facts.liveness import run_liveness
from tests.checkers.kill import ForkedChild, run_forked
from tests.facts.liveness.held_runs import RUN_ID, hold

# -- end states ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "state"),
    [
        ("finished", "finished"),
        ("stopped", "stopped"),
        ("failed", "failed"),
        ("closed", "stopped"),
    ],
)
def test_an_end_that_was_said_is_named(tmp_path: Path, end: str, state: str) -> None:
    run_forked(hold(tmp_path, end=end))
    assert end_state(tmp_path).state == state


def test_a_failure_comes_with_its_reason(tmp_path: Path) -> None:
    run_forked(hold(tmp_path, end="failed"))
    assert end_state(tmp_path).reason == "ValueError: boom"


@pytest.mark.parametrize("lease", [True, False])
def test_a_living_process_is_running_and_a_killed_one_is_killed(
    tmp_path: Path, lease: bool
) -> None:
    child = ForkedChild(hold(tmp_path, lease=lease))
    child.read_until(1)
    assert end_state(tmp_path).state == "running"
    child.kill()
    found = end_state(tmp_path)
    assert found.state == "killed"
    assert str(child.pid) in str(found.reason)


def test_a_run_that_ends_while_it_is_looked_at_is_not_said_to_be_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = FactsWriter(tmp_path)
    lease = Lease.acquire(tmp_path, facts.run_id)
    facts.event(Moment.START)
    real = run_liveness._last_start_or_end

    def then_end(run_dir: Path) -> object:
        monkeypatch.setattr(run_liveness, "_last_start_or_end", real)
        found = real(run_dir)
        facts.event(Moment.TRAIN_END, status="finished")
        facts.close()
        lease.release()
        return found

    monkeypatch.setattr(run_liveness, "_last_start_or_end", then_end)
    assert end_state(tmp_path).state == "finished"


def test_a_new_attempt_of_a_failed_run_is_running_again(tmp_path: Path) -> None:
    run_forked(hold(tmp_path, end="failed"))
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    assert end_state(tmp_path).state == "running"
    child.kill()


def test_a_run_whose_machine_restarted_is_lost(tmp_path: Path) -> None:
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    child.kill()
    replace_json(tmp_path / "lease.json", {**(read_lease(tmp_path) or {}), "boot_id": "before"})
    found = end_state(tmp_path)
    assert found.state == "lost"
    assert "restarted" in str(found.reason)


def test_a_run_of_another_host_lives_while_its_counter_moves(tmp_path: Path) -> None:
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    child.kill()
    lease = {**(read_lease(tmp_path) or {}), "host": "node7"}
    now = [100.0]
    watch = HeartbeatWatch(clock=lambda: now[0])
    for beat in range(3):  # the wall clock of the other host is an hour off from the second on
        replace_json(tmp_path / "lease.json", {**lease, "heartbeat": beat})
        assert end_state(tmp_path, watch=watch).state == "running"
        lease["heartbeat_wall"] -= 3600
        now[0] += 5.0
    now[0] += 6.0
    found = end_state(tmp_path, watch=watch)
    assert found.state == "lost"
    assert "node7" in str(found.reason)


def test_an_old_lease_of_another_host_is_lost_at_first_sight(tmp_path: Path) -> None:
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    child.kill()
    lease = read_lease(tmp_path) or {}
    replace_json(tmp_path / "lease.json", {**lease, "host": "node7", "heartbeat_wall": 1e9})
    assert end_state(tmp_path, watch=HeartbeatWatch()).state == "lost"


def test_a_process_that_is_stopped_in_its_tracks_is_not_responding(tmp_path: Path) -> None:
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    os.kill(child.pid, signal.SIGSTOP)
    stamp = (read_lease(tmp_path) or {})["heartbeat_mono"]
    assert end_state(tmp_path, watch=HeartbeatWatch(clock=lambda: stamp + 1)).state == "running"
    found = end_state(tmp_path, watch=HeartbeatWatch(clock=lambda: stamp + 11))
    assert (found.state, found.reason) == ("not responding", "no heartbeat for 11 s")
    child.kill()


class Hanging:
    """A lease whose loop and whose clock move only when the test says so."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir, self.now = run_dir, time.monotonic()
        self.progress = LoopProgress(step=3, boundaries=3, moving=True)

    def clock(self) -> float:
        return self.now

    def state(self, watch: HeartbeatWatch, *, later_s: float) -> str:
        """The state so much later, after a heartbeat."""
        self.now += later_s
        self.lease.report_progress(lambda: self.progress)
        found = end_state(self.run_dir, watch=watch)
        return found.state if found.reason is None else f"{found.state}: {found.reason}"

    def __enter__(self) -> Hanging:
        self.lease = Lease.acquire(self.run_dir, RUN_ID, clock=self.clock)
        FactsWriter(self.run_dir, run_id=RUN_ID).close()
        return self

    def __exit__(self, *_: object) -> None:
        self.lease.release()


@pytest.fixture
def hanging(tmp_path: Path):
    with Hanging(tmp_path) as made:
        yield made


def test_a_loop_that_reaches_no_boundary_is_not_responding_at_first_sight(
    hanging: Hanging,
) -> None:
    hung = "not responding: no step boundary for 11 s, after step 3"
    assert hanging.state(HeartbeatWatch(clock=hanging.clock), later_s=0) == "running"
    assert hanging.state(HeartbeatWatch(clock=hanging.clock), later_s=9) == "running"
    assert hanging.state(HeartbeatWatch(clock=hanging.clock), later_s=2) == hung
    hanging.progress = LoopProgress(step=4, boundaries=4, moving=True)
    assert hanging.state(HeartbeatWatch(clock=hanging.clock), later_s=60) == "running"


def test_a_loop_that_stands_on_purpose_is_running_and_gets_its_time_when_it_goes_on(
    hanging: Hanging,
) -> None:
    watch = HeartbeatWatch(clock=hanging.clock)
    hanging.progress = LoopProgress(step=3, boundaries=3, moving=False)
    assert hanging.state(watch, later_s=3600) == "running"
    hanging.progress = LoopProgress(step=3, boundaries=3, moving=True)
    assert hanging.state(watch, later_s=9) == "running"
    assert hanging.state(watch, later_s=2).startswith("not responding")


def test_a_hung_loop_of_another_host_is_judged_by_the_readers_clock(hanging: Hanging) -> None:
    now = [5.0]  # nothing like the other host's
    watch = HeartbeatWatch(clock=lambda: now[0])
    hanging.state(watch, later_s=0)
    elsewhere = {**(read_lease(hanging.run_dir) or {}), "host": "node7"}
    ages = []
    for beat in range(4):
        lease = {**elsewhere, "heartbeat": beat, "heartbeat_mono": 1e6 + beat}
        ages.append(watch.boundary_age_s(hanging.run_dir, lease))
        assert watch.heartbeat_age_s(hanging.run_dir, lease) in (None, 0.0)
        now[0] += 4.0
    assert ages == [None, 4.0, 8.0, 12.0]
    assert watch.boundary_age_s(hanging.run_dir, {**elsewhere, "moving": False}) is None


def test_a_folder_without_facts_is_lost(tmp_path: Path) -> None:
    assert end_state(tmp_path).state == "lost"


def test_the_end_is_found_behind_many_later_events(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.TRAIN_END, status="finished")
        for _ in range(400):
            facts.event(Moment.INTERVENTION, kind="look", text="on_start " * 30)
    assert end_state(tmp_path).state == "finished"
