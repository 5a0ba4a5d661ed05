"""One writer a run directory, and the true end of each run."""

from __future__ import annotations

import json
import os
import platform
import signal
import threading
import time
from pathlib import Path

import pytest

from midstep.core.errors import RunHeldError
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
from midstep.facts.liveness import end_state as end_state_module
from midstep.facts.liveness import lease as lease_module
from midstep.facts.liveness.run_lock import RunLock, lock_holder
from tests.checkers.kill import Acknowledge, ForkedChild, fork, run_forked

RUN_ID = "0123456789ab"


def hold(run_dir: Path, *, end: str | None = None, lease: bool = True):
    """A run that begins, says so, ends as asked, or waits to be killed."""

    def work(acknowledge: Acknowledge) -> None:
        held = Lease.acquire(run_dir, RUN_ID) if lease else None
        facts = FactsWriter(run_dir, run_id=RUN_ID)
        facts.event(Moment.START)
        facts.log(1, loss=0.5)
        acknowledge("began")
        if end is None:
            signal.pause()
        elif end == "failed":
            facts.event(Moment.EXCEPTION, error="ValueError: boom")
        elif end != "closed":
            facts.event(Moment.TRAIN_END, status=end)
        facts.close()
        if held is not None:
            held.release()

    return work


def test_a_second_process_is_refused_and_told_who_holds_the_run(tmp_path: Path) -> None:
    child = ForkedChild(hold(tmp_path))
    child.read_until(1)
    for attempt in (lambda: Lease.acquire(tmp_path, RUN_ID), lambda: FactsWriter(tmp_path)):
        with pytest.raises(RunHeldError, match=rf"process {child.pid} on .* since .* UTC"):
            attempt()
    assert lock_holder(tmp_path) == child.pid
    child.kill()
    assert lock_holder(tmp_path) is None
    Lease.acquire(tmp_path, RUN_ID).release()


def test_looking_at_the_lock_does_not_lose_it(tmp_path: Path) -> None:
    """A POSIX lock goes when its process closes any descriptor of the file."""
    with Lease.acquire(tmp_path, RUN_ID), FactsWriter(tmp_path):
        assert lock_holder(tmp_path) == os.getpid()
        assert end_state(tmp_path).state == "running"
        with pytest.raises(AssertionError, match="RunHeldError"):
            run_forked(lambda _: RunLock.acquire(tmp_path).release())
    run_forked(lambda _: RunLock.acquire(tmp_path).release())


def test_the_lock_stays_until_its_last_user_in_the_process_lets_go(tmp_path: Path) -> None:
    def take(_: Acknowledge) -> None:
        RunLock.acquire(tmp_path).release()

    with Lease.acquire(tmp_path, RUN_ID):
        FactsWriter(tmp_path).close()
        with pytest.raises(AssertionError, match="RunHeldError"):
            run_forked(take)
    run_forked(take)


def test_a_forked_worker_does_not_keep_the_lock_of_a_killed_parent(tmp_path: Path) -> None:
    def work(acknowledge: Acknowledge) -> None:
        with Lease.acquire(tmp_path, RUN_ID), FactsWriter(tmp_path) as facts:
            facts.event(Moment.START)
            worker = fork()
            if worker == 0:
                signal.alarm(20)  # it must not outlive the test, whatever happens
                signal.pause()
            acknowledge(worker)
            signal.pause()

    child = ForkedChild(work)
    child.read_until(1)
    worker = json.loads(child._text)
    try:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        assert end_state(tmp_path).state == "killed"
    finally:
        os.kill(worker, signal.SIGKILL)
        os.close(child._reader)


def test_a_lease_shows_who_where_and_how_far(tmp_path: Path) -> None:
    with Lease.acquire(tmp_path, RUN_ID, 3, socket="/run/x.sock") as lease:
        lease.report_progress(lambda: LoopProgress(step=7, boundaries=9, moving=True))
        lease.reachable_at(server_url="http://127.0.0.1:8765", socket="/run/x.sock")
        found = read_lease(tmp_path)
    assert found is not None
    assert set(found) >= {"run_id", "attempt", "pid", "host", "boot_id", "started", "heartbeat"}
    assert (found["attempt"], found["pid"], found["host"]) == (3, os.getpid(), platform.node())
    assert (found["step"], found["boundary_count"], found["moving"]) == (7, 9, True)
    assert found["boundary_wall"] >= found["started"]
    assert (found["url"], found["socket"]) == ("http://127.0.0.1:8765", "/run/x.sock")
    assert read_lease(tmp_path) is None
    lease.release()
    assert "midstep-lease" not in {thread.name for thread in threading.enumerate()}


def test_the_heartbeat_counts_up_and_survives_a_disk_that_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written = threading.Semaphore(0)
    refusals = [True, True, False]
    replace = lease_module.replace_json

    def flaky(*args, **kwargs):
        written.release()
        if refusals and refusals.pop(0):
            raise lease_module.StorageError("cannot write lease.json: no space")
        replace(*args, **kwargs)

    monkeypatch.setattr(lease_module, "BEAT_EVERY_S", 0.01)
    with Lease.acquire(tmp_path, RUN_ID):
        monkeypatch.setattr(lease_module, "replace_json", flaky)
        for _ in range(4):
            assert written.acquire(timeout=20)
        found = read_lease(tmp_path)
    assert found is not None
    assert found["heartbeat"] >= 3
    assert len([r for r in caplog.records if "no space" in r.message]) == 1


def test_leftovers_of_a_killed_process_go_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    for left in (tmp_path / ".lease.json.1.midstep-tmp", tmp_path / "facts/.a.2.midstep-tmp"):
        left.write_text("half")
    with Lease.acquire(tmp_path, RUN_ID), FactsWriter(tmp_path):
        assert not list(tmp_path.rglob("*.midstep-tmp*"))


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
    real = end_state_module._last_start_or_end

    def then_end(run_dir: Path) -> object:
        monkeypatch.setattr(end_state_module, "_last_start_or_end", real)
        found = real(run_dir)
        facts.event(Moment.TRAIN_END, status="finished")
        facts.close()
        lease.release()
        return found

    monkeypatch.setattr(end_state_module, "_last_start_or_end", then_end)
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
