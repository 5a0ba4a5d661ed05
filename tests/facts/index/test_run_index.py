"""The index of runs: after any changes it lists what a fresh reading of every run gives."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midstep.facts import FactsWriter, Lease, LoopProgress, last_attempt
from midstep.facts.index.labels import write_labels
from midstep.facts.index.run_index import RunIndex
from midstep.facts.index.run_query import RunQuery
from midstep.facts.index.run_row import derived_id
from midstep.facts.index.run_summary import RunSummary
from midstep.facts.liveness.run_lock import RunLock
from tests.facts.index.reference_run_row import slow_row
from tests.facts.stored_runs import write_run

CLOCKED = {"updated_at", "steps_per_s"}


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small writes; none of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def listed(index: RunIndex) -> dict[str, dict[str, Any]]:
    """Rows by directory."""
    index.refresh()
    return {row.directory: row.as_wire() for row in index.rows(RunQuery(limit=10**6)).rows}


# -- the truth ------------------------------------------------------------------------------------


class Meddler:
    """Does to a folder of runs what people, crashes and disks do."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        self.made = 0
        self.moves: list[Callable[[], None]] = [
            *[self.add, self.go_on, self.log, self.log, self.end_epoch, self.end_epoch],
            *[self.rewind, self.finish, self.fail, self.test, self.label, self.remove],
            *[self.truncate, self.flip, self.tear, self.replace],
        ]

    def move(self) -> str:
        chosen = self.chance.choice(self.moves if self.runs() else [self.add])
        chosen()
        return chosen.__name__

    def runs(self) -> list[Path]:
        return sorted(path for path in self.root.iterdir() if (path / "facts").is_dir())

    def writing(self) -> FactsWriter:
        run = self.chance.choice(self.runs())
        return FactsWriter(run, attempt=max(1, last_attempt(run)))

    def add(self) -> None:
        self.made += 1
        folder = self.root / f"run_{self.made}"
        with FactsWriter(folder) as facts:
            facts.event("on_start", name=folder.name, config={"lr": self.made}, seed=self.made)

    def go_on(self) -> None:
        run = self.chance.choice(self.runs())
        with FactsWriter(run, attempt=last_attempt(run) + 1) as facts:
            facts.event("on_start", name="again", config={"lr": 0.5})

    def log(self) -> None:
        with self.writing() as facts:
            start = self.chance.randrange(50)
            for step in range(start, start + self.chance.choice([1, 3, 40])):
                facts.log(step, loss=self.chance.random(), lr=float("nan"))
                if self.chance.random() < 0.2:
                    facts.log(step, **{f"metric{self.chance.randrange(4)}": float(step)})

    def end_epoch(self) -> None:
        with self.writing() as facts:
            for epoch in range(self.chance.randrange(3)):
                loss = self.chance.choice([self.chance.random(), float("inf")])
                metrics = {"accuracy": self.chance.random()}
                moment = self.chance.choice(["on_epoch_end", "on_validation_end"])
                facts.event(moment, epoch=epoch, step=9 * epoch, val_loss=loss, metrics=metrics)
                facts.event("on_step", kind="health", step=7, metrics={"loss": 5.0})

    def rewind(self) -> None:
        with self.writing() as facts:
            facts.timeline += 1
            facts.event("on_intervention", kind="rewind", step=3, from_step=9, parent=0)

    def finish(self) -> None:
        with self.writing() as facts:
            facts.event("on_train_end", status=self.chance.choice(["finished", "stopped"]), step=8)

    def fail(self) -> None:
        with self.writing() as facts:
            facts.event("on_exception", error="ValueError: no", step=4)

    def test(self) -> None:
        with self.writing() as facts:
            facts.event("on_test_end", test_loss=0.5, metrics={"accuracy": 0.25})

    def label(self) -> None:
        write_labels(self.chance.choice(self.runs()), tags=[f"t{self.chance.randrange(3)}"])

    def remove(self) -> None:
        if self.chance.random() < 0.3:
            shutil.rmtree(self.chance.choice(self.runs()))

    def _file(self) -> Path | None:
        names = [*self.root.glob("*/facts/events.jsonl"), *self.root.glob("*/facts/steps.*.bin")]
        found = sorted(path for path in names if path.stat().st_size > 200)
        return self.chance.choice(found) if found else None

    def truncate(self) -> None:
        if (path := self._file()) is not None:
            os.truncate(path, self.chance.randrange(path.stat().st_size))

    def flip(self) -> None:
        if (path := self._file()) is not None:
            data = bytearray(path.read_bytes())
            data[self.chance.randrange(70, len(data))] ^= 1 << self.chance.randrange(8)
            path.write_bytes(data)

    def tear(self) -> None:
        if (path := self._file()) is not None:
            with path.open("ab") as file:
                file.write(b'{"schema_version":2,"seq":9'[: 8 * self.chance.randrange(4)])

    def replace(self) -> None:
        """The same content under another inode, as a restored backup."""
        if (path := self._file()) is not None:
            copy = path.with_name("copy")
            shutil.copyfile(path, copy)
            copy.replace(path)


@pytest.mark.parametrize("seed", range(4))
def test_the_index_says_what_a_fresh_look_at_every_run_says(tmp_path: Path, seed: int):
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    root.mkdir()
    meddler, index, moves = Meddler(root, seed), RunIndex(root, cache), []
    for turn in range(60):
        moves.append(meddler.move())
        if turn % 20 == 19:  # another process, with what this one has kept
            index.close()
            index = RunIndex(root, cache)
        assert_true(listed(index), root, moves)


def assert_true(found: dict[str, dict[str, Any]], root: Path, moves: list[str]) -> None:
    assert set(found) == {path.name for path in root.iterdir() if (path / "facts").is_dir()}
    for directory, row in found.items():
        expected = slow_row(root, directory)
        if expected["state"] == "damaged":
            assert (row["state"], bool(row["why"])) == ("damaged", True), (directory, moves)
            continue
        expected["id"] = expected["id"] or derived_id(directory)
        expected["name"] = expected["name"] or directory
        shown = {name: row[name] for name in expected}
        shown["scalars"] = sorted(shown["scalars"])
        shown["summary"] = {k: v for k, v in shown["summary"].items() if k not in CLOCKED}
        if row["state"] in ("lost", "killed", "stopped") and expected["ended_at"] is None:
            shown["ended_at"] = None
        assert repr_sorted(shown) == repr_sorted(expected), (directory, moves)


def repr_sorted(row: dict[str, Any]) -> str:
    """NaN equals NaN here."""
    summary = sorted(row["summary"].items())
    return repr({**dict(sorted(row.items())), "summary": summary})


# -- changes --------------------------------------------------------------------------------------


def test_a_look_tells_what_came_changed_and_went(tmp_path: Path):
    first, second = write_run(tmp_path / "a"), write_run(tmp_path / "b", end=None)
    index = RunIndex(tmp_path, "memory")
    assert set(index.refresh().added) == {first, second}
    assert not index.refresh()
    with FactsWriter(tmp_path / "b", attempt=1) as facts:
        facts.log(11, loss=0.0)
    assert index.refresh().changed == (second,)
    shutil.rmtree(tmp_path / "a")
    assert index.refresh().removed == (first,)


def test_a_run_that_only_grew_is_not_read_again_from_the_start(tmp_path: Path, monkeypatch):
    write_run(tmp_path / "a", end=None)
    index = RunIndex(tmp_path, "memory")
    index.refresh()
    read: list[int] = []
    original = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: read.append(at) or original(fd, n, at))
    with FactsWriter(tmp_path / "a", attempt=1) as facts:
        read.clear()
        facts.event("on_train_end", status="finished")
    read.clear()
    assert listed(index)["a"]["state"] == "finished"
    assert min(read) > 0


# -- states ---------------------------------------------------------------------------------------


def test_a_live_run_is_listed_with_the_state_and_step_of_its_lease(tmp_path: Path):
    index = RunIndex(tmp_path, "memory")
    with (
        FactsWriter(tmp_path / "a") as facts,
        Lease.acquire(tmp_path / "a", facts.run_id, socket="/run/x.sock") as lease,
    ):
        facts.event("on_start", name="a")
        lease.report_progress(
            lambda: LoopProgress(step=7, boundaries=7, moving=False, state="paused")
        )
        row = listed(index)["a"]
        assert (row["state"], row["live"], row["reachable"]) == ("paused", True, True)
        assert (row["step"], row["ended_at"]) == (7, None)
    assert listed(index)["a"]["state"] == "stopped"


def test_a_run_has_its_own_id_before_its_first_record(tmp_path: Path):
    """Else a list that looks just then shows it twice: as what it will be, and by its folder."""
    run_dir = tmp_path / "run_a"
    (run_dir / "facts").mkdir(parents=True)
    index = RunIndex(tmp_path, cache="memory")
    with Lease.acquire(run_dir, "0123456789ab"):
        assert index.refresh().added == ("0123456789ab",)
        with FactsWriter(run_dir, run_id="0123456789ab") as facts:
            facts.event("on_start", name="a")
        found = index.refresh()
    assert (found.added, found.removed) == ((), ())


def test_a_directory_that_was_just_taken_is_listed_once_it_says_which_run_it_is(tmp_path: Path):
    index = RunIndex(tmp_path, cache="memory")
    lock = RunLock.acquire(tmp_path / "run_a")  # the first thing that a new run does
    try:
        assert not index.refresh()
        with Lease.acquire(tmp_path / "run_a", "0123456789ab"):
            assert index.refresh().added == ("0123456789ab",)
    finally:
        lock.release()


def test_a_run_that_ends_between_two_reads_of_one_look_is_not_said_to_be_killed(
    tmp_path: Path, monkeypatch
):
    facts = FactsWriter(tmp_path / "a")
    lease = Lease.acquire(tmp_path / "a", facts.run_id)
    facts.event("on_start", name="a")
    index = RunIndex(tmp_path, "memory")
    assert listed(index)["a"]["live"]
    real = RunSummary.update

    def then_end(digest: RunSummary, folder: str) -> bool:
        monkeypatch.setattr(RunSummary, "update", real)
        changed = real(digest, folder)
        facts.event("on_train_end", status="finished")
        facts.close()
        lease.release()
        return changed

    monkeypatch.setattr(RunSummary, "update", then_end)
    assert listed(index)["a"]["state"] == "finished"


def test_a_run_without_a_socket_is_live_but_out_of_reach(tmp_path: Path):
    with FactsWriter(tmp_path / "a") as facts, Lease.acquire(tmp_path / "a", facts.run_id):
        row = listed(RunIndex(tmp_path, "memory"))["a"]
    assert (row["live"], row["reachable"]) == (True, False)
    assert "no socket" in row["why"]


def test_a_run_taken_up_again_is_no_longer_finished(tmp_path: Path):
    write_run(tmp_path / "a")
    index = RunIndex(tmp_path, "memory")
    assert listed(index)["a"]["state"] == "finished"
    with FactsWriter(tmp_path / "a", attempt=2) as facts:
        facts.event("on_start", name="a")
        assert listed(index)["a"]["state"] == "running"


def test_a_damaged_run_is_listed_with_the_reason(tmp_path: Path):
    write_run(tmp_path / "a")
    (tmp_path / "a" / "facts" / "events.jsonl").write_text('{"schema_version": 1}\n')
    write_run(tmp_path / "b")
    steps = tmp_path / "b" / "facts" / "steps.0.1.bin"
    from midstep.facts.format.step_frames import _CRC, _HEADER, FILE_HEADER_BYTES

    head = bytearray(steps.read_bytes())
    head[8:12] = (9).to_bytes(4, "little")
    from zlib import crc32

    head[_HEADER.size : FILE_HEADER_BYTES] = _CRC.pack(crc32(head[: _HEADER.size]))
    steps.write_bytes(head)
    rows = listed(RunIndex(tmp_path, "memory"))
    assert rows["a"]["state"] == rows["b"]["state"] == "damaged"
    assert "no record" in rows["a"]["why"]
    assert "version 9" in rows["b"]["why"]


def test_facts_that_may_not_be_read_are_told_and_found_again_when_they_may(tmp_path, monkeypatch):
    write_run(tmp_path / "a")
    index, original = RunIndex(tmp_path, "memory"), os.scandir

    def refuse(path):
        if str(path).endswith("facts"):
            raise PermissionError(13, "Permission denied")
        return original(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        row = listed(index)["a"]
        assert (row["state"], row["why"]) == ("damaged", "facts cannot be read: Permission denied")
    assert listed(index)["a"]["state"] == "finished"


def test_a_file_that_was_mended_without_a_trace_is_read_again(tmp_path: Path, monkeypatch):
    write_run(tmp_path / "a")
    index = RunIndex(tmp_path, "memory")
    with monkeypatch.context() as patch:
        patch.setattr("midstep.facts.index.event_summary.read_new_bytes", _refused)
        assert listed(index)["a"]["state"] == "damaged"
        assert not index.refresh()
    assert listed(index)["a"]["state"] == "finished"


def _refused(path: Path, offset: int) -> bytes:
    raise PermissionError(13, "Permission denied", str(path))


def test_links_are_not_followed(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    write_run(outside / "secret")
    write_run(root / "a")
    (root / "linked").symlink_to(outside / "secret", target_is_directory=True)
    (root / "b").mkdir()
    (root / "b" / "facts").symlink_to(outside / "secret" / "facts")
    shutil.copytree(root / "a", root / "c")
    (root / "c" / "facts" / "events.jsonl").unlink()
    (root / "c" / "facts" / "events.jsonl").symlink_to(outside / "secret/facts/events.jsonl")
    index = RunIndex(root, "memory")
    rows = listed(index)
    assert set(rows) == {"a", "b", "c"}
    assert (rows["b"]["state"], rows["c"]["state"]) == ("damaged", "damaged")
    assert rows["b"]["name"] == "b"
    assert "secret" not in str(rows)
    run_id = rows["a"]["id"]
    assert index.directory(run_id) == root / "a"
    shutil.move(root / "a", outside / "a")
    (root / "a").symlink_to(outside / "a")
    assert index.directory(run_id) is None
    assert index.directory("../outside/a") is None


def test_a_copy_of_a_run_is_listed_beside_it_under_an_id_of_its_own(tmp_path: Path):
    run_id = write_run(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    index = RunIndex(tmp_path, "memory")
    rows = listed(index)
    assert rows["a"]["id"] == run_id
    assert rows["b"]["id"] == derived_id("b")
    assert "copy" in rows["b"]["why"]
    assert index.directory(derived_id("b")) == tmp_path / "b"


def test_a_study_of_influence_is_no_run_but_a_run_in_a_folder_of_that_name_is(tmp_path: Path):
    study = tmp_path / "influence" / "20261115T120000Z_study"
    for folder in (study, tmp_path / "influence" / "run_a"):
        with FactsWriter(folder) as facts:
            facts.event("on_start", name=folder.name)
    (study / "requests").mkdir()
    (study / "plan.json").write_text("{}")
    assert set(listed(RunIndex(tmp_path, "memory"))) == {"influence/run_a"}


def test_runs_of_sweeps_are_found_and_folders_below_a_run_are_not(tmp_path: Path):
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "multiruns" / "exp" / "b")
    write_run(tmp_path / "runs" / "a" / "artifacts" / "inner")
    assert set(listed(RunIndex(tmp_path, "memory"))) == {"runs/a", "multiruns/exp/b"}
