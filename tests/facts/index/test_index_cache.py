"""The cache file of the index: damaged, locked, shared, or of another version."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from midstep.facts.index.index_cache import IndexCache
from midstep.facts.index.labels import write_labels
from midstep.facts.index.run_index import RunIndex
from midstep.facts.index.run_query import RunQuery
from tests.facts.stored_runs import write_run


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of small writes; none of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def listed(index: RunIndex) -> dict[str, dict[str, Any]]:
    """Rows by directory."""
    index.refresh()
    return {row.directory: row.as_wire() for row in index.rows(RunQuery(limit=10**6)).rows}


# -- the file -------------------------------------------------------------------------------------


def kept_index(root: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """Rows, the index kept on disk behind it."""
    index = RunIndex(root, cache)
    found = listed(index)
    index.close()
    return found


def _sql(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


def _flip_bytes(path: Path) -> None:
    data, chance = bytearray(path.read_bytes()), random.Random(1)
    for _ in range(200):
        data[chance.randrange(len(data))] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"no database at all" * 100),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: _sql(path, "PRAGMA user_version = 0"),
        lambda path: _sql(path, "DROP TABLE run"),
        lambda path: _sql(path, "ALTER TABLE run ADD COLUMN more"),
        lambda path: _sql(path, "UPDATE run SET digest = '{}'"),
        lambda path: _sql(path, "UPDATE run SET digest = x'7b7d'"),
        lambda path: _sql(path, "UPDATE run SET directory = directory || '_'"),
        _flip_bytes,
    ],
    ids=[
        *["deleted", "empty", "garbage", "cut", "version", "dropped", "altered", "typed"],
        *["digest", "moved", "flipped"],
    ],
)
def test_a_harmed_index_is_made_anew_and_says_the_same(tmp_path: Path, harm):
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    for number in range(3):
        write_run(root / f"run_{number}", lr=number)
    before = kept_index(root, cache)
    harm(cache)
    assert kept_index(root, cache) == before
    assert len(IndexCache(cache).load()) == 3


def test_an_index_that_another_process_holds_is_done_without(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("midstep.facts.index.index_cache.WAIT_S", 0.05)
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    write_run(root / "a")
    before = kept_index(root, cache)
    holder = sqlite3.connect(cache, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert kept_index(root, cache) == before
    index = RunIndex(root, cache)
    write_labels(root / "a", note="new")
    index.refresh()
    index.save_cache()
    holder.execute("COMMIT")
    holder.close()
    index.save_cache()  # what could not be kept then is kept now
    assert b'"note": "new"' in IndexCache(cache).load()["a"].digest


def test_two_servers_on_one_index_wait_for_each_other(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("midstep.facts.index.index_cache.WAIT_S", 60.0)
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    for number in range(20):
        write_run(root / f"run_{number}")
    errors: list[BaseException] = []

    def serve() -> None:
        try:
            index = RunIndex(root, cache)
            for number in range(20):
                index.refresh()
                write_labels(root / f"run_{number}", note=threading.current_thread().name)
                index.refresh()
                index.save_cache()
        except BaseException as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert listed(RunIndex(root, cache)) == listed(RunIndex(root, "memory"))
    assert len(IndexCache(cache).load()) == 20


def test_a_run_known_from_an_earlier_start_is_not_read_again(tmp_path: Path, monkeypatch):
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    write_run(root / "a")
    before = kept_index(root, cache)
    monkeypatch.setattr("midstep.facts.index.run_summary.RunSummary._reread", pytest.fail)
    assert kept_index(root, cache) == before


def test_names_that_are_no_text_are_listed_and_not_kept(tmp_path: Path):
    root, cache = tmp_path / "runs", tmp_path / "index.sqlite"
    write_run(root / os.fsdecode(b"run_\xff\xfe"))
    (row,) = kept_index(root, cache).values()
    assert row["state"] == "finished"
    row["directory"].encode()
    assert IndexCache(cache).load() == {}
