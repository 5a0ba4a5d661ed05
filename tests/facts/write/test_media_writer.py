"""What is kept of the media of a run: the first, the last, evenly spaced ones between; bounded."""

from __future__ import annotations

import json
import os
import stat
import threading
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from midstep.core.media.given_values import histogram, own_value
from midstep.facts import FactsReader, FactsWriter
from midstep.facts.deletion import delete_run, plan_deletion
from midstep.facts.format.media_files import MOST_GROUPS, MOST_ITEMS
from midstep.facts.read.media import MediaReader
from midstep.facts.write import media_group, media_writer


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these tests is about power cuts."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def log(run_dir: Path, first: int, count: int, **values: object) -> None:
    with FactsWriter(run_dir) as facts:
        for step in range(first, first + count):
            for name, value in values.items():
                facts.log_values(step, {name: own_value(name, value)})
            drain(facts)


def drain(facts: FactsWriter) -> None:
    """Wait until nothing is in the queue, as in a training that logs more slowly than that."""
    media = facts._media
    while media is not None and media._waiting:
        threading.Event().wait(0.001)


def steps_of(run_dir: Path, key: str) -> list[int]:
    [group] = [each for each in MediaReader(run_dir).groups() if each.index.key == key]
    return [item.step for item in group.items]


def refusals(run_dir: Path) -> list[tuple[str, str]]:
    events = FactsReader(run_dir).events()
    return [(e["name"], e["reason"]) for e in events if e.get("kind") == "value_refused"]


def test_first_and_last_are_always_kept_and_those_between_are_evenly_spaced(tmp_path: Path) -> None:
    log(tmp_path, 1, 3 * MOST_ITEMS + 7, note="done")
    steps = steps_of(tmp_path, "note")
    assert (steps[0], steps[-1]) == (1, 3 * MOST_ITEMS + 7)
    assert MOST_ITEMS / 2 < len(steps) <= MOST_ITEMS
    gaps = {later - earlier for earlier, later in pairwise(steps[:-1])}
    assert gaps == {4}
    [group] = MediaReader(tmp_path).groups()
    assert group.index.logged == 3 * MOST_ITEMS + 7
    folder = tmp_path / "artifacts/media" / group.id
    assert {each.name for each in folder.iterdir()} == {
        "index.json",
        *(f"{item.number}.txt" for item in group.items),
    }


def test_a_flood_is_thinned_in_memory_and_keeps_its_first_and_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    monkeypatch.setattr(
        media_writer.MediaWriter, "_take", wait_for(go, media_writer.MediaWriter._take)
    )
    with FactsWriter(tmp_path) as facts:
        for step in range(1, 1001):
            facts.log_values(step, {"a": own_value("a", f"at {step}")})
        go.set()
    steps = steps_of(tmp_path, "a")
    assert (steps[0], steps[-1]) == (1, 1000)
    [group] = MediaReader(tmp_path).groups()
    assert group.index.logged == 1000


def wait_for(go: threading.Event, usual):  # type: ignore[no-untyped-def]
    def take(writer: object, logged: object) -> None:
        go.wait()
        usual(writer, logged)

    return take


def test_kinds_under_one_name_are_groups_of_their_own(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for value in ("text", torch.zeros(3, 4, 4), [1.0, 2.0], [{"a": 1}]):
            facts.log_values(1, {"x": own_value("x", value), "loss": 0.5})
    kinds = [(each.index.key, each.index.kind) for each in MediaReader(tmp_path).groups()]
    assert kinds == [("x", "histogram"), ("x", "image"), ("x", "table"), ("x", "text")]
    assert list(FactsReader(tmp_path).series()["loss"].low) == [0.5]


def test_a_resumed_run_continues_its_groups_and_removes_what_a_kill_left(tmp_path: Path) -> None:
    log(tmp_path, 1, 3, note="a")
    [group] = MediaReader(tmp_path).groups()
    orphan = tmp_path / "artifacts/media" / group.id / "17.txt"
    orphan.write_text("written, but never in the index")
    log(tmp_path, 4, 3, note="b")
    assert steps_of(tmp_path, "note") == [1, 2, 3, 4, 5, 6]
    assert not orphan.exists()


def test_media_of_abandoned_steps_are_not_of_the_present_timeline(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in (1, 2, 3):
            facts.log_values(step, {"note": own_value("note", f"first {step}")})
        facts.timeline = 1
        facts.event("on_intervention", kind="rewind", step=1, from_step=3, parent=0)
        facts.log_values(2, {"note": own_value("note", "second 2")})
    reader = MediaReader(tmp_path)
    [group] = reader.groups()
    assert [(item.step, item.timeline) for item in group.items] == [(1, 0), (2, 1)]
    assert group.abandoned == 2
    assert reader.content(group, group.items[-1].number) == b"second 2"
    assert reader.content(group, 2) is None, "of an abandoned step"


def test_the_bytes_of_a_run_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media_writer, "MOST_RUN_BYTES", 20_000)
    monkeypatch.setattr(media_group, "MOST_GROUP_BYTES", 12_000)
    log(tmp_path, 1, 40, a="x" * 1000, b="y" * 1000)
    groups = MediaReader(tmp_path).groups()
    assert all(group.bytes <= 12_000 for group in groups)
    assert sum(group.bytes for group in groups) <= 20_000
    assert all((steps := steps_of(tmp_path, key))[0] == 1 and steps[-1] == 40 for key in "ab")
    log(tmp_path, 41, 1, **{f"n{index}": "z" * 3000 for index in range(8)})
    assert sum(group.bytes for group in MediaReader(tmp_path).groups()) <= 20_000
    assert any("all it may take" in reason for _, reason in refusals(tmp_path))


def test_names_are_bounded_and_the_refusal_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FactsWriter(tmp_path) as facts:
        for index in range(MOST_GROUPS + 3):
            facts.log_values(1, {f"picture {index}": own_value("x", "a")})
            drain(facts)
    assert len(MediaReader(tmp_path).groups()) == MOST_GROUPS
    [(name, reason)] = refusals(tmp_path)
    assert (name, "under fewer" in reason) == (f"picture {MOST_GROUPS}", True)
    assert capsys.readouterr().err.count("is not recorded") == 1


def test_a_disk_that_refuses_ends_media_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "artifacts").symlink_to(tmp_path)
    log(tmp_path, 1, 2, a="text")
    with FactsWriter(tmp_path) as facts:
        facts.log(3, loss=0.5)
    assert list(FactsReader(tmp_path).series()["loss"].low) == [0.5]
    assert "is a link" in capsys.readouterr().err
    assert not (tmp_path / "media").exists()


def test_files_are_for_their_owner_and_go_with_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    log(run, 1, 2, a="text", b=torch.zeros(3, 4, 4), c=histogram([1.0]))
    for path in (run / "artifacts/media").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600)
    assert plan_deletion(run).foreign == []
    assert delete_run(run).kept == []


HOSTILE = {
    "no JSON": "{",
    "another format": json.dumps({"format": 2}),
    "deep": "[" * 10_000,
    "huge number": json.dumps({"format": 1, "key": "a", "kind": "text", "logged": 10**400}),
    "path in the number": json.dumps(
        {
            "format": 1,
            "key": "a",
            "kind": "text",
            "logged": 1,
            "stride": 1,
            "items": [["../../secret", 1, 0, 1.0, 5, {}]],
        }
    ),
    "long key": json.dumps(
        {"format": 1, "key": "a" * 10_000, "kind": "text", "logged": 1, "stride": 1, "items": []}
    ),
    "counts": json.dumps(
        {
            "format": 1,
            "key": "a",
            "kind": "histogram",
            "logged": 1,
            "stride": 1,
            "items": [[0, 1, 0, 1.0, 0, {"counts": [1] * 100_000, "low": 0, "high": 1}]],
        }
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_index_is_left_out(tmp_path: Path, name: str) -> None:
    log(tmp_path, 1, 1, sound="text")
    folder = tmp_path / "artifacts/media" / ("0" * 20)
    folder.mkdir()
    (folder / "index.json").write_text(HOSTILE[name])
    assert [each.index.key for each in MediaReader(tmp_path).groups()] == ["sound"]


def test_links_and_pipes_in_place_of_media_lead_nowhere(tmp_path: Path) -> None:
    run, secret = tmp_path / "run", tmp_path / "secret"
    secret.write_text("a file of ours")
    log(run, 1, 2, a="text")
    reader = MediaReader(run)
    [group] = reader.groups()
    folder = run / "artifacts/media" / group.id
    (folder / "0.txt").unlink()
    (folder / "0.txt").symlink_to(secret)
    (folder / "1.txt").unlink()
    os.mkfifo(folder / "1.txt")
    assert [reader.content(group, number) for number in (0, 1, 2)] == [None] * 3
    (folder / "index.json").unlink()
    os.mkfifo(folder / "index.json")
    assert reader.groups() == []
