"""Torn tails, damage, a full, slow, broken or read-only disk: said aloud, and nothing lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from midstep.core.errors import StorageError
from midstep.core.files import storage
from midstep.core.moments import Moment
from midstep.facts import FactsReader, FactsWriter, SeriesStore
from midstep.facts.write import flush_thread as tender_module
from midstep.facts.write import write_queue as outbox_module
from tests.checkers.kill import assert_facts_survive, records_on_disk, run_forked
from tests.faults.tracing import ROOT, trace

NOBODY = 65534
ROWS_IN_A_TIGHT_LOOP = 240_000
SHORT_LIFE = str(Path(__file__).with_name("short_life.py"))


def notes(run_dir: Path, kind: str) -> list[dict]:
    return [record for record in FactsReader(run_dir).events() if record.get("kind") == kind]


def reopen(run_dir: Path) -> None:
    with FactsWriter(run_dir, attempt=2) as facts:
        facts.log(99, loss=99.0)


# -- torn tails and damage -------------------------------------------------------------------------


@pytest.mark.usefixtures("no_slow_writes")
@pytest.mark.parametrize("name", ["steps.0.1.bin", "events.jsonl"])
def test_a_tail_torn_at_every_byte_is_cut_said_and_stays_cut(tmp_path: Path, name: str) -> None:
    whole = tmp_path / "whole"
    with FactsWriter(whole) as facts:
        if name == "events.jsonl":
            facts.log(1, loss=1.0)
            facts.event(Moment.START, seed=1)
            before = facts._files.events.size
            facts.event(Moment.TRAIN_END)
        else:
            facts.event(Moment.START, seed=1)
            facts.log(1, loss=1.0)
            before = facts._files.steps.size
            facts.log(2, loss=2.0, lr=0.5)
    size = (whole / "facts" / name).stat().st_size
    for end in range(before, size):
        run_dir = tmp_path / f"cut{end}"
        shutil.copytree(whole, run_dir)
        os.truncate(run_dir / "facts" / name, end)
        reopen(run_dir)
        cut = notes(run_dir, "torn_tail_cut")
        # The definition of the layout, before its first row of 64 bytes, is a frame of its own.
        is_boundary = end in {before, size - 64} if name == "steps.0.1.bin" else end == before
        assert len(cut) == (0 if is_boundary else 1)
        assert all(before <= note["offset"] < end for note in cut)
        assert assert_facts_survive(run_dir) == 3 + len(cut)
        reopen(run_dir)
        assert len(notes(run_dir, "torn_tail_cut")) == len(cut)
        assert FactsReader(run_dir).problems == []


def test_a_file_cut_inside_its_first_bytes_can_be_written_again(tmp_path: Path) -> None:
    for end in range(0, 64, 7):
        run_dir = tmp_path / str(end)
        with FactsWriter(run_dir) as facts:
            facts.event(Moment.START)
        os.truncate(run_dir / "facts/steps.0.1.bin", end)
        with FactsWriter(run_dir) as facts:
            facts.log(1, loss=1.0)
        assert FactsReader(run_dir).series()["loss"].low.tolist() == [1.0]
        assert FactsReader(run_dir).problems == []


@pytest.mark.usefixtures("no_slow_writes")
@pytest.mark.parametrize("name", ["steps.0.1.bin", "events.jsonl"])
def test_a_damaged_record_in_the_middle_is_set_aside_and_reported_once(
    tmp_path: Path, name: str
) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(4):
            facts.log(step, loss=float(step))
            facts.event(Moment.STEP, step=step)
    path = tmp_path / "facts" / name
    data = bytearray(path.read_bytes())
    hit = 64 + 32 + 56 + 50 if name == "steps.0.1.bin" else data.index(b"\n") + 30
    data[hit] ^= 0xFF
    path.write_bytes(data)
    for _ in range(2):
        reopen(tmp_path)
    [note] = notes(tmp_path, "damaged_record")
    assert (note["file"], note["offset"] <= hit < note["offset"] + note["bytes"]) == (name, True)
    kept = (tmp_path / "facts" / note["kept_in"]).read_bytes()
    assert kept == bytes(data[note["offset"] : note["offset"] + note["bytes"]])
    problems = FactsReader(tmp_path).problems
    assert any(name in problem and "damaged" in problem for problem in problems)
    assert any("missing" in problem for problem in problems)
    assert len(records_on_disk(tmp_path)) == 8 - 1 + 1 + 2


# -- a disk that refuses ---------------------------------------------------------------------------

FULL_DISK = """
import json, sys
from pathlib import Path
from midstep.core.moments import Moment
from midstep.facts import FactsWriter

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(1 << 20))
faults = []
facts = FactsWriter(disk / "run", on_fault=faults.append)
facts.event(Moment.START)
step = told = 0
while facts.fault is None:
    facts.log(step, loss=float(step))
    if facts.fault is None:
        told = facts.written
    step += 1
for more in range(50):
    facts.log(step + more, loss=0.0)
waiting = facts.event(Moment.EPOCH_END, epoch=0)
still_full = facts.retry()
ballast.unlink()
written = facts.retry()
facts.log(step + 50, loss=1.0)
facts.event(Moment.TRAIN_END)
seq, dropped, fault = facts.seq, facts.dropped, facts.fault
facts.close()
sys.path.insert(0, sys.argv[2])
from tests.checkers.kill import assert_facts_survive, records_on_disk
last = assert_facts_survive(disk / "run")
records = dict(records_on_disk(disk / "run"))
print(json.dumps({
    "faults": faults, "told": told, "still_full": still_full, "written": written, "seq": seq,
    "dropped": dropped, "fault": fault, "last": last, "waiting": records[waiting]["moment"],
    "kinds": [r["kind"] for r in records.values() if "kind" in r],
}))
"""


def on_small_disk(folder: Path, code: str) -> dict:
    """Run Python code on a disk of 2 MB of its own, in a mount namespace that goes with it."""
    folder.mkdir()
    user = [] if os.geteuid() == 0 else ["-U", "-r"]
    mount = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -c "$3" "$1" "$4"'
    command = ["unshare", *user, "-m", "sh", "-c", mount, "sh", str(folder), sys.executable]
    done = subprocess.run(
        [*command, code, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        remedy = f"no disk of our own here ({done.stderr.strip()}); run as root"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(remedy)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_full_disk_holds_records_back_until_there_is_space(tmp_path: Path) -> None:
    said = on_small_disk(tmp_path / "disk", FULL_DISK)
    assert len(said["faults"]) == 1
    assert "free some space" in said["faults"][0]
    assert (said["still_full"], said["written"], said["fault"]) == (False, True, None)
    assert said["dropped"] == 0
    assert said["waiting"] == "on_epoch_end"
    assert said["last"] == said["seq"] > said["told"] + 50
    assert "writing_resumed" in said["kinds"]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_record_cut_short_by_the_kernel_waits_and_is_written_once(tmp_path: Path) -> None:
    def work(acknowledge):
        facts = FactsWriter(tmp_path)
        facts.log(1, loss=1.0)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (facts._files.steps.size + 20, hard))
        facts.log(2, loss=2.0)
        acknowledge([facts.written, facts.seq, facts.fault])
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert facts.retry()
        facts.close()

    [[written, seq, fault]] = run_forked(work)
    assert (written, seq) == (1, 2)
    assert "only 20 of 56 bytes" in fault
    assert assert_facts_survive(tmp_path) == 3
    assert [note["rows_dropped"] for note in notes(tmp_path, "writing_resumed")] == [0]


def test_a_write_that_fails_with_an_io_error_waits_and_is_tried_again(
    tmp_path: Path, strace: str
) -> None:
    run_dir = tmp_path / "run"
    paths = [run_dir / "facts/steps.0.1.bin", run_dir / "facts/events.jsonl"]
    inject = "write:error=EIO:when=4"
    log = tmp_path / "log"
    done = trace(strace, [SHORT_LIFE, str(run_dir)], paths=paths, inject=inject, log=log)
    assert done.was_hit
    assert "disk reports an error" in done.errors
    assert assert_facts_survive(run_dir, done.told) == 8  # seven, and the note
    assert len(notes(run_dir, "writing_resumed")) == 1


def test_a_failed_fsync_is_said_once_and_not_retried(tmp_path: Path, strace: str) -> None:
    run_dir = tmp_path / "run"
    paths = [run_dir / "facts/events.jsonl"]
    inject = "fsync:error=EIO:when=1"
    log = tmp_path / "log"
    done = trace(strace, [SHORT_LIFE, str(run_dir)], paths=paths, inject=inject, log=log)
    assert done.was_hit
    [note] = notes(run_dir, "durability_lost")
    assert "sync" in note["reason"]
    assert assert_facts_survive(run_dir, done.told) == 8


@pytest.mark.usefixtures("no_slow_writes")
def test_a_disk_that_refuses_for_long_drops_rows_and_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MOST_WAITING", 5)
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with FactsWriter(tmp_path) as facts:
        facts.log(0, loss=0.0)
        monkeypatch.setattr(storage.os, "write", refuse)
        for step in range(1, 9):
            facts.log(step, loss=float(step))
        assert facts.event(Moment.EPOCH_END, epoch=0) == 7
        assert facts.dropped == 3
        monkeypatch.setattr(storage.os, "write", write)
        assert facts.retry()
        assert facts.retry()
        facts.log(9, loss=9.0)
    assert assert_facts_survive(tmp_path) == 9
    [note] = notes(tmp_path, "writing_resumed")
    assert note["rows_dropped"] == 3


def test_wide_rows_that_wait_are_bounded_by_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "MOST_VALUES_WAITING", 250)
    write = os.write

    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with FactsWriter(tmp_path) as facts:
        for _ in range(2):  # the room is given back once the rows are written
            dropped = facts.dropped
            monkeypatch.setattr(storage.os, "write", refuse)
            for step in range(4):
                facts.log_values(step, {f"m{index}": 1.0 for index in range(100)})
            assert facts.dropped - dropped == 2
            monkeypatch.setattr(storage.os, "write", write)
            assert facts.retry()
    assert_facts_survive(tmp_path)


def test_what_still_waits_at_close_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    facts = FactsWriter(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "write", refuse)
        facts.log(1, loss=1.0)
        facts.close()
    assert "1 records were lost" in caplog.text
    assert facts.fault is not None


def test_a_slow_disk_lets_rows_wait_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is ours: a write counts as slow while `slow` is set."""
    write, slow, clock = os.write, threading.Event(), [0.0]
    monkeypatch.setattr(outbox_module, "monotonic", lambda: clock[0])

    def dragging(descriptor: int, data: bytes) -> int:
        clock[0] += 0.05 if slow.is_set() else 0.0
        return write(descriptor, data)

    monkeypatch.setattr(storage.os, "write", dragging)
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        slow.set()
        facts.log(2, loss=2.0)
        clock[0] += 1.0
        for step in range(3, 6):
            facts.log(step, loss=float(step))
        clock[0] += 1.0
        facts.sync()
        assert facts.written == facts.seq
        slow.clear()
        facts.log(6, loss=6.0)
        facts.sync()
        facts.log(7, loss=7.0)
        assert not facts._queue.is_queueing
    rows = [r for _, r in sorted(records_on_disk(tmp_path)) if "loss" in r]
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert [note["reason"][:19] for note in notes(tmp_path, "durability_lost")] == [
        "a write took 50 ms:"
    ]
    assert_facts_survive(tmp_path)


@pytest.mark.parametrize("threads", [1, 3])
def test_one_slow_write_in_a_tight_loop_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """One write counts as slow, then the disk is fast and the callers give all they have."""
    write, late, rows = os.write, [0.0], ROWS_IN_A_TIGHT_LOOP // threads
    monkeypatch.setattr(outbox_module, "monotonic", lambda: time.monotonic() + late[0])

    def slow_once(descriptor: int, data: bytes) -> int:
        late[0] = 2000.0
        return write(descriptor, data)

    def work(thread: int) -> None:
        for step in range(rows):
            facts.log(step, **{f"loss{thread}": step})

    with FactsWriter(tmp_path) as facts:
        facts._queue.slow_write_s = 1000.0
        monkeypatch.setattr(storage.os, "write", slow_once)
        facts.log(0, first=0.0)
        monkeypatch.setattr(storage.os, "write", write)
        with facts._queue._drainer:  # so that some wait when the loops begin
            for step in range(1000):
                facts.log(step, first=0.0)
            assert len(facts._queue) == 1000
        loggers = [threading.Thread(target=work, args=(index,)) for index in range(threads)]
        for logger in loggers:
            logger.start()
        for logger in loggers:
            logger.join()
        facts.sync()
        facts.log(1, last=0.0)
        assert (facts.dropped, facts._queue.is_queueing) == (0, False)
    store = SeriesStore(tmp_path)
    store.refresh()
    for index in range(threads):
        found = store.series(f"loss{index}", points=2 * rows)
        assert found.low.tolist() == found.step.tolist() == list(range(rows))
    assert FactsReader(tmp_path).problems == []


def test_callers_do_not_help_while_the_disk_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is ours: every write counts as slow."""
    write, clock, writers, done = os.write, [0.0], [], threading.Event()
    monkeypatch.setattr(outbox_module, "monotonic", lambda: clock[0])

    def dragging(descriptor: int, data: bytes) -> int:
        clock[0] += 0.05
        writers.append(threading.current_thread().name)
        if len(writers) == 100:
            done.set()
        return write(descriptor, data)

    with FactsWriter(tmp_path) as facts:
        monkeypatch.setattr(storage.os, "write", dragging)
        for step in range(100):
            facts.log(step, loss=float(step))
        assert done.wait(20)
        monkeypatch.setattr(storage.os, "write", write)
    assert (writers[0], set(writers[1:])) == ("MainThread", {"midstep-facts"})
    assert_facts_survive(tmp_path)


@pytest.mark.usefixtures("no_slow_writes")
def test_an_interrupt_while_a_caller_helps_neither_loses_nor_doubles_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from midstep.facts.write.record_files import RecordFiles

    write_row = RecordFiles.write_row
    with FactsWriter(tmp_path) as facts:
        facts._flush_thread.stop()  # only callers write
        for moment in ("before", "behind"):

            def interrupted(ledger, *row, moment=moment):
                if moment == "behind":
                    write_row(ledger, *row)
                raise KeyboardInterrupt

            facts._queue.is_queueing = True
            facts._queue._accepted_seq = facts.written
            with monkeypatch.context() as patch:
                patch.setattr(RecordFiles, "write_row", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    facts.log(1, **{moment: 1.0})
            facts.log(2, **{moment: 2.0})
            assert not facts._queue.is_queueing
    rows = [row for _, row in sorted(records_on_disk(tmp_path))]
    assert rows == [
        {"step": step, moment: float(step)} for moment in ("before", "behind") for step in (1, 2)
    ]


@pytest.mark.usefixtures("no_slow_writes")
@pytest.mark.parametrize("change", ["moved", "deleted", "replaced"])
def test_a_run_directory_that_is_taken_away_is_a_fault_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(tender_module, "SYNC_EVERY_S", 0.01)
    run_dir, told = tmp_path / "run", threading.Event()
    facts = FactsWriter(run_dir, on_fault=lambda reason: told.set())
    facts.log(1, loss=1.0)
    if change == "deleted":
        shutil.rmtree(run_dir)
    else:
        run_dir.rename(tmp_path / "elsewhere")
        if change == "replaced":
            shutil.copytree(tmp_path / "elsewhere", run_dir)
    assert told.wait(20)
    assert "moved, deleted or replaced" in str(facts.fault)
    facts.log(2, loss=2.0)
    assert not facts.retry()
    if change != "deleted":
        shutil.rmtree(run_dir, ignore_errors=True)
        (tmp_path / "elsewhere").rename(run_dir)
        assert facts.retry()
        facts.close()
        assert assert_facts_survive(run_dir) == 3
    facts.close()


def test_a_read_only_folder_is_one_clear_error(tmp_path: Path) -> None:
    """As an unprivileged user: root may write anywhere."""
    folder = Path(tempfile.mkdtemp(prefix="midstep-read-only-"))  # tmp_path is closed to others
    folder.chmod(0o555)

    def work(acknowledge):
        try:
            FactsWriter(folder / "run")
        except StorageError as error:
            acknowledge([error.errno, str(error)])

    try:
        [[number, words]] = run_forked(work, user=NOBODY)
    finally:
        folder.rmdir()
    assert number == errno.EACCES
    assert "choose a folder you may write" in words


def test_a_reader_without_the_right_to_write_sees_a_run_and_its_state(tmp_path: Path) -> None:
    from midstep.facts import end_state

    folder = Path(tempfile.mkdtemp(prefix="midstep-reader-"))
    folder.chmod(0o755)
    try:
        with FactsWriter(folder / "run") as facts:
            facts.event(Moment.START, seed=1)
            facts.log(1, loss=0.5)
            for path in (folder / "run").rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o644)
            (folder / "run").chmod(0o755)

            def work(acknowledge):
                reader = FactsReader(folder / "run")
                acknowledge([end_state(folder / "run").state, reader.last_seq, reader.problems])

            [found] = run_forked(work, user=NOBODY)
        assert found == ["running", 2, []]
    finally:
        shutil.rmtree(folder)
