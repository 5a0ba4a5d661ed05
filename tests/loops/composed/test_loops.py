"""Every loop learns on every kind of data that it takes, records facts, and resumes bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from midstep.core.errors import ConfigError
from midstep.facts import FactsReader
from midstep.facts.deletion import plan_deletion
from midstep.loops import compose
from midstep.loops.bcl_config import CONDITIONS
from midstep.loops.composed import loop_training, step_profile
from midstep.loops.composed.bcl_loop import bcl_config
from midstep.loops.composed.loop_training import LoopTraining, RunLocation, train_loop
from tests.checkers.lives import Life, inexact_facts, live

QUIET = ("logging.make_plots=false", "trainer.epochs=4", "trainer.lr=0.005")
SMALL = tuple(f"phase1.{part}.hidden_dims=[32]" for part in ("encoder", "decoder"))
EVENTS = ("data=synthetic", "data.n_events=500", "data.batch_size=32", *SMALL)
DIGITS = ("data=digits", "data.batch_size=64", *SMALL)
BELOW = 0.4
"""The best validation loss after four epochs, as a share of that before the first."""


def prepare(*overrides: str) -> LoopTraining:
    return LoopTraining(compose([*QUIET, *overrides]))


def train(training: LoopTraining, save_dir: Path) -> dict[str, Any]:
    location = RunLocation.from_settings(training.composed, save_dir=save_dir)
    return training.run_to_end(training.open(location))


@torch.no_grad()
def loss_before(training: LoopTraining) -> float:
    training.parts.model.eval()
    batch = next(iter(training.val_loader))
    return float(training.parts.validation_step(training.parts.model, batch)["loss"])


@pytest.mark.parametrize(
    ("loop", "data"),
    [
        *((loop, data) for loop in ("ae", "gan_ae", "diffusion_ae") for data in (EVENTS, DIGITS)),
        ("mlp", ()),
        ("bcl", ()),
    ],
)
def test_a_loop_learns(loop: str, data: tuple[str, ...], tmp_path: Path) -> None:
    training = prepare(f"loop={loop}", *data)
    start = loss_before(training)
    result = train(training, tmp_path)
    assert result["best_val_loss"] < BELOW * start
    assert result["test_loss"] < start
    run_dir = Path(result["run_dir"])
    assert all((run_dir / link).is_symlink() for link in ("best_val", "last", "model"))
    assert (run_dir / ".hydra" / "config.yaml").read_text() == training.composed.hydra_texts[
        "config.yaml"
    ]
    header = FactsReader(run_dir).header()["config"]
    assert (header["loop"]["name"], header["data_meta"]["kind"]) == (
        loop,
        training.data.spec.kind,
    )
    assert plan_deletion(run_dir).foreign == []


def _train_life(life: Life, *overrides: str) -> Iterable[torch.Tensor]:
    training = prepare("trainer.epochs=3", *overrides)
    location = RunLocation(name="run", save_dir=life.save_dir, run_name="run", resume="auto")
    run = training.open(location)
    session = training.session
    session.on_step(
        lambda record: life.step_done(
            record.step, record.loss, session.controller, session.checkpoint_writer
        )
    )
    training.run_to_end(run)
    return training.parts.model.state_dict().values()


def test_a_killed_run_continues_bit_for_bit(tmp_path: Path) -> None:
    overrides = ("loop=gan_ae", "phase1/latent_space=vq", "data.n_events=200", "data.batch_size=32")
    small = ("phase1.latent_space.codebook_size=16", *SMALL)

    def work(life: Life) -> Iterable[torch.Tensor]:
        return _train_life(life, *overrides, *small)

    whole = live(work, tmp_path / "whole")
    assert (whole.errors, len(whole.losses)) == ([], 15)
    live(work, tmp_path / "killed", "kill", 8)
    rest = live(work, tmp_path / "killed")
    assert (rest.errors, rest.digest) == ([], whole.digest)
    assert rest.losses.items() <= whole.losses.items()
    assert inexact_facts(tmp_path / "killed") == []


def test_codes_reconstructions_and_noise_levels_are_recorded(tmp_path: Path) -> None:
    training = prepare(
        "loop=diffusion_ae",
        "phase1/latent_space=vq",
        "phase1.latent_space.codebook_size=8",
        *EVENTS,
        "data.n_events=200",
        "trainer.epochs=2",
    )
    events = FactsReader(train(training, tmp_path)["run_dir"]).events()
    first, last = (each for each in events if each["moment"] == "on_epoch_end")
    # Each training sample is counted once.
    assert sum(first["codebook"]["counts"][0]) == len(training.data.splits["train"])
    assert last["reconstructions"]["samples"].keys() >= {"tokens_cont", "tokens_id"}
    assert sum(level["samples"] for level in last["noise_levels"]) == len(
        training.data.splits["val"]
    )


def test_a_profile_is_saved_and_belongs_to_the_run(tmp_path: Path) -> None:
    training = prepare("loop=mlp", "trainer.profile=steps", "trainer.epochs=1")
    run_dir = Path(train(training, tmp_path)["run_dir"])
    profile = json.loads((run_dir / "artifacts" / "profile.json").read_text())
    assert (profile["steps"], profile["first_step"]) == (5, 4)
    assert any("addmm" in row["name"] for row in profile["rows"])
    assert (run_dir / profile["trace"]).stat().st_size == profile["trace_bytes"]
    assert plan_deletion(run_dir).foreign == []


def test_a_trace_above_the_limit_is_deleted_and_its_size_and_table_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_profile, "MOST_BYTES", 10)
    training = prepare("loop=mlp", "trainer.profile=steps", "trainer.epochs=1")
    run_dir = Path(train(training, tmp_path)["run_dir"])
    profile = json.loads((run_dir / "artifacts" / "profile.json").read_text())
    assert profile["trace"] is None
    assert profile["trace_bytes"] > 10
    assert any("addmm" in row["name"] for row in profile["rows"])
    assert [path.name for path in (run_dir / "artifacts").glob("profile*")] == ["profile.json"]
    (event,) = [e for e in FactsReader(run_dir).events() if e.get("kind") == "profile"]
    assert event["trace"] is None


def test_a_training_that_fails_leaves_neither_profiler_nor_open_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = prepare("loop=mlp", "trainer.profile=steps", "trainer.epochs=1")

    def fail(step: int) -> None:
        if step == 5:
            raise RuntimeError("in a step")

    run = training.open(RunLocation.from_settings(training.composed, save_dir=tmp_path))
    training.session.on_step(lambda record: fail(record.step))
    with pytest.raises(RuntimeError, match="in a step"):
        training.run_to_end(run)
    assert json.loads((run.dir / "artifacts" / "profile.json").read_text())["steps"] == 2
    again = prepare("loop=mlp", "trainer.epochs=1")
    opened = again.open(RunLocation.from_settings(again.composed, save_dir=tmp_path))
    monkeypatch.setattr(loop_training, "FigureSession", lambda *_: fail(5))
    with pytest.raises(RuntimeError, match="in a step"):
        again.run_to_end(opened)
    assert opened.ended


@pytest.mark.parametrize("loop", ["mlp", "bcl"])
def test_the_automatic_batch_size_is_recorded_and_changes_no_weight(
    loop: str, tmp_path: Path
) -> None:
    training = prepare(f"loop={loop}", "data.batch_size=auto")
    found = training.found_batch_size
    fixed = prepare(f"loop={loop}", f"data.batch_size={found}")
    assert training.parts.total_steps == fixed.parts.total_steps
    assert training.composed.resolved["data"]["batch_size"] == found
    for ours, theirs in zip(
        training.parts.model.parameters(), fixed.parts.model.parameters(), strict=True
    ):
        assert torch.equal(ours, theirs)
    result = train(training, tmp_path)
    events = FactsReader(result["run_dir"]).events()
    assert [e["batch_size"] for e in events if e.get("kind") == "batch_size_found"] == [found]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_conditions_of_bcl_map_from_the_tree(condition: str) -> None:
    overrides = ["loop=bcl", f"loop.condition={condition}", "loop.som_lr=0.01", "trainer.lr=0.1"]
    config = bcl_config(compose(overrides).config, 1_000)
    assert (config.condition, config.som_lr, config.lr) == (condition, 0.01, 0.1)
    assert (config.steps, config.batch_size, config.seed) == (80, 128, 42)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["loop=mlp", "data=synthetic"], "loop=mlp classifies"),
        (["loop=bcl", "data=synthetic"], "loop=bcl needs images"),
        (["loop=diffusion_ae", "phase1/decoder=mlp"], "needs phase1/decoder=diffusion"),
        (["loop=mlp", "trainer.device=tpu9"], "unknown device phase1.trainer.device=tpu9"),
        (["loop=mlp", "logging.families=[losss]"], "did you mean 'losses'"),
        (["data=h5"], "path"),
        (["data=h5", "data.path=/no/such.h5"], "/no/such.h5"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_run_exists(
    overrides: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said) as refused:
        train_loop(compose(overrides))
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
