"""What the lease shows, and how its heartbeat copes with a disk that refuses."""

from __future__ import annotations

import os
import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.facts import (
    FactsWriter,
    Lease,
    LoopProgress,
    read_lease,
)
from midstep.facts.liveness import lease as lease_module
from tests.facts.liveness.held_runs import RUN_ID

if TYPE_CHECKING:
    import pytest


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
