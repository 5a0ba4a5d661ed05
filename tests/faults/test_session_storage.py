"""A session over a disk that is full, cut, flipped, or taken away at any call."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.core.errors import MidstepError
from midstep.facts import FactsReader
from midstep.session.checkpoint.checkpoint_folders import FILES, CheckpointFolders
from midstep.session.checkpoint.checkpoint_store import CheckpointError
from midstep.session.engine.lineage import read_lineage
from midstep.session.engine.resume import find_resume_point
from tests.checkers.checkpoints import assert_newest_loads
from tests.checkers.kill import (
    ForkedChild,
    assert_facts_survive,
    assert_nothing_left,
    run_forked,
)
from tests.checkers.neutral import wait_until
from tests.faults.test_checkpoint_kills import CALLS, Executioner
from tests.faults.test_facts_disk import on_small_disk
from tests.session.sessions import Recipe

FLIPS = 200


def settings(folder: Path, **others: Any) -> dict[str, Any]:
    return {
        "save_dir": folder,
        "run_name": "run",
        "resume": "auto",
        "checkpoint_every_steps": 1,
        "rewind_steps": 0,
        **others,
    }


def facts(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in FactsReader(run_dir).events() if event.get("kind") == kind]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two steps, with a checkpoint of each."""
    folder = tmp_path_factory.mktemp("good")
    with Recipe()(settings(folder)) as session:
        session.on_step(lambda _record: session.checkpoint_writer.wait())
        session.fit(steps=2)
    return folder


# -- full -----------------------------------------------------------------------------------------

FULL_DISK = """
import json, os, sys, threading
from pathlib import Path
import torch
from midstep.facts import FactsReader
from midstep.session import Session, SessionConfig
from midstep.session.checkpoint.checkpoint_store import CheckpointStore

disk = Path(sys.argv[1])
ballast = disk / "ballast"
model = torch.nn.Linear(200, 500)  # 400 kB
data = [(torch.ones(200), torch.ones(500))] * 8
config = SessionConfig(save_dir=disk, run_name="run", checkpoint_every_steps=2, checkpoint_keep=1,
                       rewind_steps=0)
session = Session(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.nn.MSELoss(),
                  torch.utils.data.DataLoader(data, batch_size=2), config=config)
changed, seen = threading.Event(), {}

@session.on_step
def fill(record):
    if record.step == 3:
        session.checkpoint_writer.wait()
        ballast.write_bytes(bytes(1300 * 1024))

def drive():
    while True:
        changed.wait()
        changed.clear()
        state = session.controller.get_state()
        if state["parked"] or state["state"] == "finished":
            break
    seen["reason"], seen["step"] = state["reason"], state["step"]
    seen["old"] = CheckpointStore(session.dir).load().step
    ballast.unlink()

session.controller.sinks.subscribe(changed.set)
driver = threading.Thread(target=drive)
driver.start()
with session:
    session.fit(steps=6)
driver.join()
seen["left"] = [path.name for path in (disk / "run").rglob("*.midstep-tmp")]
found = CheckpointStore(disk / "run").newest_valid()
losses = FactsReader(disk / "run").series(["loss"])["loss"].step.tolist()
print(json.dumps({**seen, "new": found.snapshot.step, "problems": found.problems, "steps": losses}))
"""


def test_a_full_disk_parks_a_session_which_goes_on_when_there_is_space(tmp_path: Path) -> None:
    said = on_small_disk(tmp_path / "disk", FULL_DISK)
    assert "cannot be written" in said["reason"]
    assert "free some space" in said["reason"]
    assert (said["old"], said["left"]) == (2, [])
    assert 4 <= said["step"] <= 6
    assert (said["new"], said["problems"]) == (6, [])
    assert said["steps"] == [1, 2, 3, 4, 5, 6]


# -- not alone, not there -------------------------------------------------------------------------


def test_a_second_session_in_a_run_directory_is_told_who_has_it_and_touches_nothing(tmp_path):
    def second(acknowledge: Callable[[Any], None]) -> None:
        with Recipe()(settings(tmp_path)) as session:
            try:
                session.fit(steps=9)
            except MidstepError as error:
                acknowledge(str(error))

    with Recipe()(settings(tmp_path)) as first:
        first.on_boundary.append(first.checkpoint_writer.wait)
        told: list[Any] = []
        first.on_step(lambda record: told.extend(run_forked(second)) if record.step == 2 else None)
        first.fit(steps=3)
    (words,) = told
    assert str(os.getpid()) in words
    assert first.run.status == "finished"
    assert_facts_survive(tmp_path / "run")
    assert assert_newest_loads(tmp_path / "run", []) == 3


def test_a_run_directory_that_is_taken_away_parks_the_session_until_it_is_back(tmp_path):
    session = Recipe()(settings(tmp_path))
    run_dir, away, seen = tmp_path / "run", tmp_path / "away", []

    def drive() -> None:
        state = wait_until(session.controller, lambda state: state["parked"])
        seen.append((state["reason"], run_dir.exists()))
        away.rename(run_dir)

    def take_away(record: Any) -> None:
        if record.step == 2:
            session.checkpoint_writer.wait()
            run_dir.rename(away)

    driver = threading.Thread(target=drive)
    driver.start()
    with session:
        session.on_step(take_away)
        session.fit(steps=6)
    driver.join()
    (reason, is_begun_anew) = seen[0]
    assert f"{run_dir}" in reason
    assert "put" in reason
    assert not is_begun_anew
    assert_facts_survive(run_dir)
    assert assert_newest_loads(run_dir, []) == 6


# -- damaged --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES)
def test_a_session_passes_over_a_cut_checkpoint_with_a_fact(good, file, tmp_path):
    for where in ("0", "10", "half", "last byte"):
        folder = tmp_path / where
        shutil.copytree(good, folder, symlinks=True)
        path = folder / "run/checkpoints/2" / file
        data = path.read_bytes()
        ends = {"0": 0, "10": 10, "half": len(data) // 2, "last byte": -1}
        path.write_bytes(data[: ends[where]])
        with Recipe()(settings(folder)) as session:
            session.fit(steps=3)
        (refused,) = facts(folder / "run", "checkpoint_refused")
        assert f"checkpoint of step 2: {path} is not usable" in refused["reason"]
        assert facts(folder / "run", "resume")[0]["step"] == 1
        assert {name.split(".")[0] for name in CheckpointFolders(folder / "run").linked()} == {"3"}


def test_any_of_200_flipped_bits_is_passed_over_by_a_resume(good, tmp_path):
    shutil.copytree(good, tmp_path / "copy", symlinks=True)
    config = Recipe()(settings(tmp_path / "copy")).config
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    draw = random.Random(seed)
    for turn in range(FLIPS):
        path = tmp_path / "copy/run/checkpoints/2" / FILES[turn % len(FILES)]
        whole = path.read_bytes()
        data, place = bytearray(whole), draw.randrange(len(whole))
        data[place] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        found = find_resume_point(config, {})
        assert found is not None
        assert found.snapshot.step == 1, f"bit of byte {place} in {path.name}"
        assert len(found.problems) == 1
        path.write_bytes(whole)
    found = find_resume_point(config, {})
    assert found is not None
    assert found.snapshot.step == 2


def test_a_session_without_a_whole_checkpoint_starts_with_one_typed_error(good, tmp_path):
    shutil.copytree(good, tmp_path / "copy", symlinks=True)
    for step in (1, 2):
        (tmp_path / f"copy/run/checkpoints/{step}/state.json").write_bytes(b"")
    before = FactsReader(tmp_path / "copy/run").events()
    with (
        Recipe()(settings(tmp_path / "copy")) as session,
        pytest.raises(CheckpointError, match="none of the 2 checkpoints"),
    ):
        session.fit(steps=3)
    assert FactsReader(tmp_path / "copy/run").events() == before


# -- taken away at any call -----------------------------------------------------------------------


def life(folder: Path, prepare: Callable[[], Callable[[], None]]) -> Callable[..., None]:
    """Goes on from step 2: to the checkpoint of step 1, another learning rate, three steps."""

    def work(acknowledge: Callable[[Any], None]) -> None:
        torch.set_num_threads(1)
        telling = prepare()
        with Recipe()(settings(folder, checkpoint_keep=2)) as session:
            if session.run.facts.timeline == 0:
                session.command("load_checkpoint", step=1)
                session.command("set_hparams", lr_mul=0.5)
            session.fit(steps=4)
            telling()
            acknowledge([session.trainer.step, session.trainer.state.timeline])

    return work


def killed_at(good: Path, folder: Path, point: int) -> bool:
    """Kill a life at its n-th call on the disk, then start once more; False if it lived."""
    shutil.copytree(good, folder, symlinks=True)
    run_dir = folder / "run"

    def prepare() -> Callable[[], None]:
        executioner = Executioner(point)
        for name in (*CALLS, "rmdir"):
            setattr(os, name, executioner.wrap(getattr(os, name)))
        return lambda: setattr(executioner, "left", 1 << 62)  # telling is a write of its own

    child = ForkedChild(life(folder, prepare))
    told = child.wait()
    assert child.status in (0, -signal.SIGKILL), told
    assert_facts_survive(run_dir)
    assert assert_newest_loads(run_dir, ["1"]) >= 1
    if child.status == 0:
        return False
    (told_again,) = run_forked(life(folder, lambda: lambda: None))
    assert told_again[0] == 4
    assert_facts_survive(run_dir)
    assert_nothing_left(run_dir)
    assert assert_newest_loads(run_dir, []) == 4
    edges = read_lineage(run_dir)["edges"]  # whole, whether the kill came before it or behind
    assert [edge["timeline"] for edge in edges] in ([], [1])
    return True


MOST_CALLS = 2000


def test_a_kill_at_any_call_of_a_session_leaves_a_run_that_goes_on(good, tmp_path):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    draw = random.Random(seed)
    for point in sorted(draw.sample(range(1, 100), 12)):
        assert killed_at(good, tmp_path / str(point), point), f"it lived past call {point}"


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_kill_at_every_call_of_a_session_leaves_a_run_that_goes_on(good, tmp_path):
    for point in range(1, MOST_CALLS):
        folder = tmp_path / str(point)
        if not killed_at(good, folder, point):
            assert point > 100
            return
        shutil.rmtree(folder)
    pytest.fail("it never lived")
