"""Writes the golden files: `python -m tests.golden.make_golden [part ...]`.

The files in this folder were written by midstep 0.1.0, before its modules were moved and renamed,
with torch 2.13 on one CPU thread. The tests beside them read them with the present code, so that no
change of code changes a format on disk, a command or a route unnoticed.

Run this by hand only, when a format gains a version: keep the old files then, since runs of users
are as old, and write new ones beside them. Never run it to make a failing test pass. Clocks, host
and command line are taken out of what is written; measured scalars and the order of notices about
checkpoints differ from one call to the next.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from midstep.server.openapi import text
from tests.golden.command_list import EXAMPLES, recorded
from tests.golden.facts_answers import facts_of, index_of
from tests.golden.golden_copy import GOLDEN, RUNS, copy_runs
from tests.golden.golden_data import (
    DATASETS,
    FORMS,
    INFLUENCE,
    cluster_answers,
    dataset_answers,
    make_datasets,
    make_influence,
    stored_answers,
)
from tests.golden.golden_runs import make_runs
from tests.golden.random_order import order_answers
from tests.golden.server_answers import all_answers, serving_golden
from tests.golden.trainings import resumed_training

FACTS = ("rewound", "attached", "competitive", "failed", "damaged")
"""Runs whose facts are read record by record; of the others the index is asked."""


def write_json(name: str, document: Mapping[str, Any]) -> None:
    """A JSON file of this folder; each entry of an inner object has a line of its own."""
    parts = []
    for key, inner in document.items():
        if not isinstance(inner, dict):
            parts.append(f" {_compact(key)}: {_compact(inner)}")
            continue
        lines = [f"  {_compact(entry)}: {_compact(value)}" for entry, value in inner.items()]
        parts.append(f" {_compact(key)}: {{\n" + ",\n".join(lines) + "\n }")
    (GOLDEN / name).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def write_openapi() -> None:
    """The server's document, as the dashboard has it."""
    document = json.loads(text())
    described = {name: document[name] for name in ("paths", "components")}
    write_json("openapi.json", {**described, "security": document["security"]})


def write_commands() -> None:
    """The commands of an attached run and of a session."""
    write_json("commands.json", {kind: recorded(kind, Path("runs")) for kind in EXAMPLES})


def write_runs() -> None:
    """The run directories; everything below is derived from them."""
    make_runs()
    shutil.rmtree(RUNS, ignore_errors=True)
    shutil.copytree("runs", RUNS, symlinks=True)


def write_facts() -> None:
    """What readers of facts say about the golden runs."""
    runs = copy_runs(Path("copy"))
    write_json("facts.json", {name: facts_of(runs / name) for name in FACTS})
    write_json("index.json", index_of(runs))


def write_resumed() -> None:
    """What trainings do after they were resumed from the golden checkpoints."""
    kinds = ("attached", "session")
    resumed = {kind: resumed_training(kind, copy_runs(Path(kind))) for kind in kinds}
    write_json("resumed.json", resumed)


def write_answers() -> None:
    """What the server says about the golden runs."""
    with serving_golden(Path.cwd()) as server:
        write_json("answers.json", all_answers(server))


def write_datasets() -> None:
    """Datasets, and what is read of them."""
    make_datasets(Path("datasets"))
    shutil.rmtree(DATASETS, ignore_errors=True)
    shutil.copytree("datasets", DATASETS)
    answers = {form: dataset_answers(DATASETS / form) for form in FORMS}
    write_json("datasets.json", {**answers, "clusters": cluster_answers(DATASETS / "clusters")})


def write_order() -> None:
    """Orders and draws of named random streams; reads the golden datasets."""
    write_json("random_order.json", order_answers(Path.cwd()))


def write_influence() -> None:
    """A stored influence result, and what is read of it."""
    make_influence(Path("influence"))
    shutil.rmtree(INFLUENCE, ignore_errors=True)
    shutil.copytree("influence", INFLUENCE)
    write_json("influence.json", {"stored": stored_answers(INFLUENCE)})


PARTS: dict[str, Callable[[], None]] = {
    "openapi": write_openapi,
    "commands": write_commands,
    "runs": write_runs,
    "facts": write_facts,
    "resumed": write_resumed,
    "datasets": write_datasets,
    "order": write_order,
    "influence": write_influence,
    "answers": write_answers,
}


def main(parts: list[str]) -> None:
    """Write the named parts, or all, each in a working directory of its own."""
    torch.set_num_threads(1)
    unknown = set(parts) - PARTS.keys()
    if unknown:
        sys.exit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in parts or PARTS:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])
