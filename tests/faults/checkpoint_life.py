"""Writes checkpoints under strace: `python checkpoint_life.py RUN_DIR`.

It does to the disk what a session does, with small files and without torch. It prints each
checkpoint once it is on disk.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import types
from pathlib import Path

import midstep

if __name__ == "__main__":  # not through the room's front door, which loads numpy: ten times faster
    room = types.ModuleType("midstep.session")
    room.__path__ = [str(Path(midstep.__path__[0]) / "session")]
    sys.modules[room.__name__] = room

from midstep.session.checkpoint.checkpoint_folders import FILES, CheckpointFolders

SAVES = ((3, 0), (3, 0), (1, 1))
"""Steps and timelines: one, the same again, and one after a rewind, when the first goes."""


def content(name: str, index: int) -> list[bytes]:
    """The pieces of a file of the save number `index`."""
    return [f"{name} of save {index}\n".encode() * 40, b"end\n"]


def main(run_dir: str) -> None:
    secrets.token_hex = lambda size=8: "fixed"  # the trace goes by the names of files
    folders = CheckpointFolders(run_dir, keep=1)
    for index, (step, timeline) in enumerate(SAVES):
        files = {name: content(name, index) for name in FILES}
        path = folders.add(step, timeline, files, best=index == 1)
        os.write(1, json.dumps({"name": path.name, "save": index}).encode() + b"\n")


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    assert not {"torch", "numpy"} & set(sys.modules)
    main(sys.argv[1])
