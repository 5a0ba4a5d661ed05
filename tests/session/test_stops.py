"""The files of stops: bounded, thinned, whole after a kill, and of the present timeline."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from midstep.control import DebugController
from midstep.core.errors import StorageError
from midstep.facts.deletion import delete_run, plan_deletion
from midstep.facts.format.stop_files import MOST_BYTES, MOST_STOP_BYTES, MOST_STOPS, StopName
from midstep.facts.index.labels import write_labels
from midstep.facts.read.stop_evidence import read_stop, read_stops
from midstep.facts.read.timelines import Rewind
from midstep.live import attach
from midstep.server.runs.kept_step import newest_step
from midstep.server.runs.run_evidence import describe_evidence
from midstep.session import Run
from midstep.session.evidence import stop_writer
from midstep.session.evidence.stop_writer import StopWriter, WrittenStop, too_many
from tests.live.trainer import Plain


def written(causes: list[tuple[str, int]], size: int = 1) -> list[WrittenStop]:
    return [
        WrittenStop(name=StopName(0, step), cause=cause, bytes=size, order=order)
        for order, (cause, step) in enumerate(causes)
    ]


def test_of_too_many_stops_single_steps_and_near_ones_go_first():
    pauses = [("pause", 100 * n) for n in range(1, MOST_STOPS)]
    stops = written([("pause", 1), ("step", 50), ("breakpoint", 51), *pauses, ("pause", 10_000)])
    gone = [stop.name.step for stop in too_many(stops)]
    assert gone[0] == 50
    assert len(gone) == len(stops) - MOST_STOPS
    assert not {1, 51, 10_000} & set(gone)


def test_all_stops_together_are_bounded_and_first_newest_and_end_stay():
    stops = written([("breakpoint", n) for n in range(1, 30)], size=MOST_STOP_BYTES)
    end = WrittenStop(name=StopName(0, 30, True), cause="finished", bytes=10, order=30)
    gone = {stop.name for stop in too_many([*stops, end])}
    kept = [stop for stop in [*stops, end] if stop.name not in gone]
    assert sum(stop.bytes for stop in kept) <= MOST_BYTES
    assert {kept[0].name.step, kept[-1].name.is_end, end in kept} == {1}


def test_a_stop_is_bounded_and_says_what_was_left_out(tmp_path):
    noise = os.urandom(MOST_STOP_BYTES)
    parts = [("batch.json", b"{}"), ("batch.png", noise), ("console.txt", noise), ("b.json", b"1")]
    size = StopWriter(tmp_path).write(StopName(0, 5), {"cause": "pause", "wall": 1.0}, parts)
    stop = read_stop(tmp_path, StopName(0, 5))
    assert size == stop.size < MOST_STOP_BYTES
    assert stop.manifest["left_out"] == ["batch.png", "console.txt"]
    assert (stop.read("b.json"), stop.read("batch.png")) == (b"1", None)


def test_single_steps_in_a_row_leave_the_last_one(tmp_path):
    writer = StopWriter(tmp_path)
    for step, cause in enumerate(["breakpoint", "step", "step", "step", "pause", "step"], 1):
        writer.write(StopName(0, step), {"cause": cause, "wall": float(step)}, ())
    assert [stop.name.step for stop in read_stops(tmp_path)] == [1, 4, 5, 6]


def test_a_kill_while_a_stop_is_written_leaves_the_others_and_no_rest(tmp_path, monkeypatch):
    with Run(name="a", save_dir=tmp_path, run_name="a") as run:
        pass
    StopWriter(run.dir).write(StopName(0, 1), {"cause": "pause", "wall": 1.0}, ())

    def killed(self, target):
        raise KeyboardInterrupt  # as a signal at this point: the new file has no name yet

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        patched.setattr(Path, "unlink", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            StopWriter(run.dir).write(StopName(0, 2), {"cause": "pause", "wall": 2.0}, ())
    folder = run.dir / "artifacts" / "evidence"
    assert len(list(folder.iterdir())) == 2
    assert [stop.id for stop in read_stops(run.dir)] == ["1"]
    assert plan_deletion(run.dir).foreign == []
    StopWriter(run.dir)  # of the next attempt
    assert [path.name for path in folder.iterdir()] == ["1.zip"]
    assert delete_run(run.dir).kept == []


def test_a_disk_that_refuses_is_named_once_and_the_training_goes_on(tmp_path, monkeypatch, capsys):
    def full(*_arguments, **_settings):
        raise StorageError("cannot write 1.zip: No space left on device")

    monkeypatch.setattr(stop_writer, "replace_bytes", full)
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        plain.train(run)
    assert run.status == "finished"
    assert capsys.readouterr().err.count("a stop could not be kept: cannot write 1.zip") == 1


def test_stops_of_steps_that_were_taken_back_are_listed_and_not_shown(tmp_path):
    writer = StopWriter(tmp_path)
    for order, name in enumerate([StopName(0, 40), StopName(0, 60), StopName(1, 45)]):
        writer.write(name, {"cause": "pause", "wall": float(order)}, ())
    stops = read_stops(tmp_path)
    rewind = Rewind(timeline=1, parent=0, step=42, from_step=60)
    assert newest_step(stops, 1, [rewind]).id == "45.t1"
    assert newest_step(stops[:2], 1, [rewind]).id == "40"
    assert newest_step(stops[1:2], 1, [rewind]) is None


def test_the_end_of_an_earlier_attempt_stays_as_a_stop(tmp_path):
    for steps in (3, 5):
        control = DebugController()
        with Run(
            name="a", save_dir=tmp_path, run_name="a", existing="continue", controller=control
        ) as run:
            for _ in range(steps):
                control.wait_if_paused()
    kept = describe_evidence(run.dir)
    assert [(stop["id"], stop["attempt"]) for stop in kept["stops"]] == [("3-end", 1)]
    assert (kept["end"]["id"], kept["end"]["attempt"], kept["shown"]) == ("5-end", 2, "5-end")


def test_a_batch_of_odd_objects_is_kept_without_them_and_nothing_fails(tmp_path):
    class Refusing:
        shape, dtype = (4, 3), torch.float32

        def __getattr__(self, name):
            raise RuntimeError("of the user")

    plain = Plain()
    with attach(plain.model, plain.optimizer, save_dir=tmp_path) as run:
        for _ in run.steps(3):
            run.batch(Refusing())
            run.log(loss=plain.step(torch.ones(4, 2)))
    (end,) = read_stops(run.dir)
    assert run.status == "finished"
    assert end.manifest["step_data"][0]["key"] == "layers"


def test_no_token_is_in_any_file_of_a_run(tmp_path):
    plain = Plain()
    run = attach(
        *plain.parts, save_dir=tmp_path, serve=True, port=0, config={"seen": "later"}, notes="n"
    )

    def train():
        with run:
            token = run.url.partition("#token=")[2]
            train.token = token
            print("open", run.url)
            write_labels(run.dir, tags=[], note=f"see {run.url}")
            run.facts.event("on_intervention", who="python", kind="note", text=run.url)
            run.controller.capture_step_data("address", {"text": run.url})
            plain.train(run, epochs=1)
            raise ValueError(f"lost {run.url}")

    with pytest.raises(ValueError, match="lost"):
        train()
    assert len(train.token) > 20
    contents = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()}
    for path in run.dir.rglob("*.zip"):
        with zipfile.ZipFile(path) as packed:
            contents |= {path / name: packed.read(name) for name in packed.namelist()}
    assert any(b"#token=***" in data for data in contents.values())
    assert [path for path, data in contents.items() if train.token.encode() in data] == []
    for path in contents:
        if path.is_file() and path.parts[-2] in ("evidence", run.dir.name):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_run_without_a_model_keeps_what_there_is(tmp_path):
    control = DebugController()
    with Run(name="a", save_dir=tmp_path, controller=control) as run:
        control.capture_batch(nn.Parameter(torch.ones(2, 3)), 0.5)
        control.wait_if_paused()
    (end,) = read_stops(run.dir)
    assert end.manifest["step_data"] == []
    assert "batch" in end.manifest["not_kept"]
