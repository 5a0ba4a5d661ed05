"""One process writes a run, and the kernel releases its lock however it ends."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from midstep.core.errors import RunHeldError
from midstep.core.moments import Moment
from midstep.facts import (
    FactsWriter,
    Lease,
    end_state,
)
from midstep.facts.liveness.run_lock import RunLock, lock_holder
from tests.checkers.kill import Acknowledge, ForkedChild, fork, run_forked
from tests.facts.liveness.held_runs import RUN_ID, hold


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
