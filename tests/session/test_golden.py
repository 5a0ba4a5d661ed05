"""Checkpoints that earlier versions wrote are read, and trainings go on from them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from midstep.session.checkpoint import manifest
from midstep.session.checkpoint.checkpoint_store import CheckpointError, CheckpointStore
from midstep.session.checkpoint.fingerprint import hash_value
from midstep.session.checkpoint.hashes import digest
from midstep.session.checkpoint.manifest import VERSION, Upgrade
from tests.session.golden import GOLDEN, KEPT, make, rest

VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def expected(version: str) -> dict[str, Any]:
    return dict(json.loads((GOLDEN / version / "expected.json").read_text()))


def test_every_format_version_has_a_golden_checkpoint():
    assert [str(version) for version in range(1, VERSION + 1)] == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_golden_checkpoint_is_read_to_the_bit(version):
    found = CheckpointStore(GOLDEN / version).load()
    assert (found.step, found.epoch, found.cursor, found.timeline) == (KEPT, 1, 4, 0)
    parts = {name: hash_value(tree) for name, tree in found.state_tree().items()}
    assert parts == expected(version)["parts"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_training_goes_on_from_a_golden_checkpoint(version, tmp_path):
    shutil.copytree(GOLDEN / version / "checkpoints", tmp_path / "run/checkpoints")
    assert_goes_on(tmp_path, expected(version)["rest"])


def assert_goes_on(folder: Path, wanted: list[Any]) -> None:
    """The same batches, and the same losses as far as another processor gives the same bits."""
    with make(folder) as session:
        # Not by the command: another version of torch may describe the same optimizer otherwise.
        session.engine.go_to(CheckpointStore(folder / "run").load(), cause="golden")
        assert session.trainer.step == KEPT
        found = rest(session)
    assert [ids for ids, _ in found] == [ids for ids, _ in wanted]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], rel=1e-4)


# -- an older version, as a later midstep will meet this one --------------------------------------


def as_version_0(folder: Path) -> None:
    """Two names were others, one in the manifest and one in the state."""
    path = next((folder / "checkpoints").iterdir())
    state = (path / "state.json").read_bytes().replace(b'"progress":', b'"counters":')
    (path / "state.json").write_bytes(state)
    document = json.loads((path / "manifest.json").read_bytes())
    document.pop("whole")
    document |= {"version": 0, "position": document.pop("cursor")}
    document["files"]["state.json"] = {"bytes": len(state), "blake2b": digest(state)}
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    (path / "manifest.json").write_bytes(body + f',"whole":"{digest(body)}"}}\n'.encode())


def renamed(document: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: value for name, value in document.items()}


def test_a_training_goes_on_from_an_older_version_once_there_is_an_upgrade(tmp_path, monkeypatch):
    shutil.copytree(GOLDEN / "1" / "checkpoints", tmp_path / "run/checkpoints")
    as_version_0(tmp_path / "run")
    with pytest.raises(CheckpointError, match="format version 0, written by midstep"):
        CheckpointStore(tmp_path / "run").load()
    upgrade = Upgrade(
        manifest=lambda document: renamed(document, "position", "cursor"),
        state=lambda tree: renamed(tree, "counters", "progress"),
    )
    monkeypatch.setitem(manifest.UPGRADES, 0, upgrade)
    assert_goes_on(tmp_path, expected("1")["rest"])
