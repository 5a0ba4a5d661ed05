"""`midstep train` and `midstep resume` as a user types them."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from midstep.cli.main import main
from midstep.facts import FactsReader, end_state

SHORT = ("loop=mlp", "data.batch_size=512", "logging.make_plots=false")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_run_prints_a_line_per_epoch_and_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *SHORT, "trainer.epochs=2", "hydra.job.name=try"]) == 0
    first, one, two, end, last = capsys.readouterr().out.splitlines()
    (run_dir,) = (tmp_path / "outputs" / "runs").iterdir()
    assert run_dir.name.endswith("_try")
    assert first == last == f"run   {run_dir}"
    assert one.startswith("epoch 1 of 2 · step 3 · loss ")
    assert one.endswith(" left")
    assert two.startswith("epoch 2 of 2 · step 6 · loss ")
    assert "best" in two
    assert end.startswith("finished after 6 steps · best validation loss ")


def test_the_composed_config_is_printed_and_nothing_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "loop=ae", "phase1/latent_space=vq", "--cfg", "job"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["phase1"]["latent_space"]["name"] == "vq"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trainer.sed=1"], "did you mean phase1.trainer.seed?"),
        (["phase1.trainer.learning_rate=1"], "use phase1.trainer.lr"),
        (["trainer.epochs=many"], "could not be converted to Integer"),
        (["data=h5", "data.path=none.h5"], "none.h5"),
        (["data=h5", "data.path=broken.h5"], "broken.h5"),
        (["logging=wandb_offline"], "needs a mirror"),
        (["loop=mlp", "data=synthetic"], "loop=mlp classifies"),
        (["--dry-run"], "add -m"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_no_run(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.h5").write_bytes(b"no HDF5 file")
    assert main(["train", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "outputs").exists()


def test_an_h5_file_with_a_wrong_shape_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import h5py
    import numpy as np

    with h5py.File("events.h5", "w") as file:
        for split in ("train", "val", "test"):
            group = file.create_group(split)
            group["tokens_cont"] = np.zeros((4, 18, 4), np.float32)
            group["tokens_id"] = np.ones((4, 17), np.int64)
            group["globals"] = np.zeros((4, 2), np.float32)
    assert main(["train", "data=h5", "data.path=events.h5"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "events.h5" in line
    assert "tokens_id" in line
    assert not (tmp_path / "outputs").exists()


def test_a_stopped_run_is_resumed_by_name_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from midstep.loops import compose
    from midstep.loops.composed.loop_training import LoopTraining, RunLocation

    composed = compose([*SHORT, "trainer.epochs=3"])
    training = LoopTraining(composed)
    run = training.open(RunLocation.from_settings(composed, save_dir=Path("outputs/runs")))
    training.session.on_step(lambda record: record.step == 4 and run.controller.stop())
    assert training.run_to_end(run)["status"] == "stopped"
    assert main(["resume", run.dir.name]) == 0
    assert "finished after 9 steps" in capsys.readouterr().out
    assert end_state(run.dir).state == "finished"
    kinds = [event.get("kind") for event in FactsReader(run.dir).events()]
    assert "resume" in kinds
    assert main(["resume", run.dir.name]) == 2
    assert "is finished" in capsys.readouterr().err


def test_ctrl_c_stops_with_a_checkpoint_and_prints_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from midstep.loops.composed.loop_training import LoopTraining

    opened = LoopTraining.open

    def open_and_interrupt(training: LoopTraining, *arguments: Any, **settings: Any) -> Any:
        run = opened(training, *arguments, **settings)
        training.session.on_step(
            lambda record: record.step == 4 and signal.raise_signal(signal.SIGINT)
        )
        return run

    with monkeypatch.context() as patched:
        patched.setattr(LoopTraining, "open", open_and_interrupt)
        assert main(["train", *SHORT, "trainer.epochs=3", "--save-dir", "my runs"]) == 130
    *_, stopped, remedy = capsys.readouterr().out.splitlines()
    (run_dir,) = (tmp_path / "my runs").iterdir()
    assert stopped.startswith("stopped after ")
    assert end_state(run_dir).state == "stopped"
    command = shlex.split(remedy.removeprefix("continue with: "))
    assert command == ["midstep", "resume", str(run_dir)]
    assert main(command[1:]) == 0
    assert "finished after 9 steps" in capsys.readouterr().out
