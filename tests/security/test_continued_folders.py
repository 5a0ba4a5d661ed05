"""A stranger's run is continued: nothing outside of its folder is written, cut or removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from midstep.core.errors import MidstepError, StorageError
from midstep.facts.index.hydra_files import read_hydra_files
from midstep.live import attach
from midstep.loops.composed.loop_training import write_hydra_folder
from midstep.loops.config.recorded_config import read_recorded
from midstep.monitoring import ensure_figures_dir
from midstep.session import Run
from tests.live.trainer import Plain
from tests.security.hostile_folders import MAKERS, SECRET, Maker, sound_run
from tests.security.test_hostile_folders import runs_clean

FOLDERS = (
    "facts",
    "facts/quarantine",
    "checkpoints",
    "artifacts",
    "artifacts/evidence",
    "artifacts/media",
    "figures",
    ".hydra",
)
FILES = (
    "facts/events.jsonl",
    "facts/steps.0.1.bin",
    "facts/steps.0.2.bin",
    "facts/.lock",
    "console.log",
    "lease.json",
    "labels.json",
)
REFUSED = (
    "facts",
    "facts/quarantine",
    "checkpoints",
    "figures",
    ".hydra",
    "facts/events.jsonl",
    "facts/steps.0.1.bin",
    "facts/.lock",
)
"""The others are warned about, replaced, or not used by a further attempt."""


def train(save_dir: Path) -> None:
    """One attempt of a small training, which writes everything that a training writes."""
    plain = Plain()
    attached = attach(
        *plain.parts,
        save_dir=save_dir,
        run_name="theirs",
        resume="auto",
        checkpoint_every_steps=1,
        tags=["a"],
    )
    with attached as run:
        for _ in run.epochs(2):
            for count, (x, _) in enumerate(plain.loader):
                print("a step")
                run.log(loss=plain.step(x), note="a text")
                if count == 2:
                    run.controller.stop()
    ensure_figures_dir(save_dir / "theirs")
    write_hydra_folder(save_dir / "theirs", {"config.yaml": "lr: 0.1"})


@pytest.fixture(scope="module")
def first_attempt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped run whose events have a damaged record and a torn tail."""
    save_dir = tmp_path_factory.mktemp("first")
    train(save_dir)
    events = save_dir / "theirs" / "facts" / "events.jsonl"
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join([*lines[:2], b"#" + lines[2], *lines[3:]]) + b'{"torn')
    steps = save_dir / "theirs" / "facts" / "steps.0.1.bin"
    steps.write_bytes(steps.read_bytes() + b"torn")
    return save_dir


def everything_in(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def as_link(name: str) -> Callable[[Path, Path], None]:
    def change(run_dir: Path, outside: Path) -> None:
        """Move a folder out of the run, and put a link in its place."""
        (run_dir / name).parent.mkdir(exist_ok=True)
        if (run_dir / name).is_dir():
            shutil.copytree(run_dir / name, outside / "folder", symlinks=True)
            shutil.rmtree(run_dir / name)
        else:
            (outside / "folder").mkdir()
        (outside / "folder" / ".mine.abc.midstep-tmp").mkdir()
        (run_dir / name).symlink_to(outside / "folder")

    return change


def as_second_name(name: str) -> Callable[[Path, Path], None]:
    def change(run_dir: Path, outside: Path) -> None:
        """Give a file of the run a second name outside of it."""
        (run_dir / name).touch()
        (outside / "file").hardlink_to(run_dir / name)

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [(name, as_link(name)) for name in FOLDERS] + [(name, as_second_name(name)) for name in FILES],
    ids=[f"linked {name}" for name in FOLDERS] + [f"second name {name}" for name in FILES],
)
def test_a_continued_run_writes_through_no_link_and_into_no_second_name(
    tmp_path: Path, first_attempt: Path, name: str, change: Callable[[Path, Path], None]
) -> None:
    shutil.copytree(first_attempt, tmp_path / "runs", symlinks=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    change(tmp_path / "runs" / "theirs", outside)
    before = everything_in(outside)
    assert before
    with (
        pytest.raises(StorageError, match=r"it is a link|another name")
        if name in REFUSED
        else (nullcontext())
    ):
        train(tmp_path / "runs")
    assert everything_in(outside) == before


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_hostile_folder_is_continued_or_refused(tmp_path: Path, make: Maker) -> None:
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    folder = sound_run(tmp_path / "runs" / "theirs")
    try:
        make(folder, secret)
    except PermissionError:
        pytest.skip("only root can make devices")
    before = everything_in(secret.parent)
    with suppress(MidstepError), Run(name="x", run_dir=folder, existing="continue") as run:
        print("printed")
        run.event("on_intervention", who="system", kind="note")
    assert everything_in(secret.parent) == before


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_verbs_that_change_a_run_stay_inside_of_it(
    tmp_path: Path, make: Maker, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "outside" / "secret"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    folder = sound_run(tmp_path / "runs" / "theirs")
    try:
        make(folder, secret)
    except PermissionError:
        pytest.skip("only root can make devices")
    before = everything_in(secret.parent)
    for verb in (
        ["resume", str(folder)],
        ["runs", "figures", str(folder), "--families", "losses", "--dpi", "20"],
        ["runs", "rm", str(folder), "--yes"],
    ):
        runs_clean(verb, capfd)
    assert everything_in(secret.parent) == before


def test_settings_are_not_read_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write_hydra_folder(Path(shutil.copytree(tmp_path, outside)), {"config.yaml": "token: x"})
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / ".hydra").symlink_to(outside / ".hydra")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        read_hydra_files(run_dir)
    with pytest.raises(MidstepError, match="cannot be read"):
        read_recorded(run_dir)
    (tmp_path / "alias").symlink_to(outside)  # the run directory itself may be given by a link
    assert read_hydra_files(tmp_path / "alias").config == {"token": "x"}
