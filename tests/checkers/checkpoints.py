"""The promise of I2: the newest acknowledged checkpoint, or the one before it, is whole."""

from __future__ import annotations

from pathlib import Path

from midstep.session.checkpoint.checkpoint_folders import FILES, CheckpointFolders, CheckpointName
from midstep.session.checkpoint.checkpoint_store import CheckpointStore

__all__ = ["assert_folders_whole", "assert_newest_loads"]


def assert_folders_whole(run_dir: str | Path) -> list[str]:
    """Every checkpoint has all its files and every link leads to one; their names, newest first."""
    folders = CheckpointFolders(run_dir)
    places = folders.names()
    for place in places:
        found = {entry.name for entry in folders.path(place).iterdir()}
        assert found == set(FILES), f"{place.name} has {sorted(found)}"
    names = [place.name for place in places]
    assert folders.linked() <= set(names), f"links lead to {folders.linked()}, there are {names}"
    return names


def assert_newest_loads(run_dir: str | Path, acknowledged: list[str]) -> int:
    """I2 in a run directory: everything loads, and nothing acknowledged is newer than that.

    Args:
        run_dir: the run directory, with nobody writing.
        acknowledged: names of the checkpoints that were acknowledged, in order.

    Returns:
        The step that a resume would go on from, or -1 without any.
    """
    names = assert_folders_whole(run_dir)
    found = CheckpointStore(run_dir).newest_valid()
    if found is None:
        assert not acknowledged, f"acknowledged and gone: {acknowledged}"
        return -1
    assert found.problems == []
    places = [place for place in map(CheckpointName.parse, acknowledged) if place is not None]
    newest = CheckpointName.parse(names[0])
    assert newest is not None
    assert not places or newest >= max(places), f"{names} does not have {acknowledged[-1]}"
    return found.snapshot.step
