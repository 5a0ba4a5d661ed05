"""When checkpoints are taken, which are kept, what a bad disk does, and what a resume accepts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from midstep.control import Command
from midstep.core.errors import ConfigError, ControlError, StorageError
from midstep.facts import FactsReader
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from tests.checkers.checkpoints import assert_newest_loads
from tests.checkers.neutral import wait_until
from tests.data.order.loaders import Augmented, Case
from tests.session.same import assert_same
from tests.session.sessions import Recipe


def facts(run_dir: Path, kind: str) -> list[dict]:
    return [event for event in FactsReader(run_dir).events() if event.get("kind") == kind]


def settings(tmp_path: Path, **others):
    return {"save_dir": tmp_path, "run_name": "run", "resume": "auto", **others}


def steps_on_disk(run_dir: Path) -> list[int]:
    return sorted(CheckpointStore(run_dir).steps)


# -- when -----------------------------------------------------------------------------------------


def test_by_default_checkpoints_are_taken_at_epoch_ends_and_at_the_end(tmp_path):
    with Recipe()(settings(tmp_path)) as session:  # three steps an epoch
        session.on_step(
            lambda _record: session.checkpoint_writer.wait()
        )  # a busy disk may leave some out
        session.fit(steps=7)
    assert steps_on_disk(tmp_path / "run") == [3, 6, 7]
    told = facts(tmp_path / "run", "checkpoint")
    assert [(each["step"], each["cause"]) for each in told] == [
        (3, "epoch"),
        (6, "epoch"),
        (7, "end"),
    ]


def test_every_so_many_steps_and_only_so_many_are_kept(tmp_path):
    with Recipe()(settings(tmp_path, checkpoint_every_steps=2, checkpoint_keep=2)) as session:
        session.on_step(lambda _record: session.checkpoint_writer.wait())
        session.fit(steps=8)
    assert steps_on_disk(tmp_path / "run") == [6, 8]


def test_a_pause_takes_a_checkpoint_and_a_stop_too(tmp_path):
    session = Recipe()(settings(tmp_path))

    found: list[list[int]] = []

    def drive() -> None:
        reached.result()
        session.checkpoint_writer.wait()
        found.append(steps_on_disk(tmp_path / "run"))
        session.command("step", n=1)
        session.controller.stop()

    with session:
        assert session.dir == tmp_path / "run"
        reached = session.controller.submit(Command(name="run_until", payload={"step": 1}))
        driver = threading.Thread(target=drive)
        driver.start()
        session.fit(steps=100)
        driver.join()
        assert session.run.status == "stopped"
    assert found == [[1]]
    assert steps_on_disk(tmp_path / "run") == [1, 2]


def test_without_deterministic_pauses_a_pause_takes_none(tmp_path):
    session = Recipe()(settings(tmp_path, deterministic_pauses=False))

    def drive() -> None:
        wait_until(session.controller, lambda state: state["parked"])
        session.controller.resume()

    with session:
        session.controller.run_until(1)
        driver = threading.Thread(target=drive)
        driver.start()
        session.fit(steps=2)
        driver.join()
    assert steps_on_disk(tmp_path / "run") == [2]


def test_the_best_validation_has_a_link(tmp_path):
    with Recipe(validate=True)(settings(tmp_path)) as session:
        session.fit(epochs=4)
    run_dir = tmp_path / "run"
    ends = [e for e in FactsReader(run_dir).events() if e["moment"] == "on_validation_end"]
    best = min(ends, key=lambda end: end["val_loss"])
    assert (run_dir / "best_val").resolve().name.split(".")[0] == str(best["step"])
    assert (run_dir / "model").resolve() == (run_dir / "best_val").resolve()


# -- a disk that refuses --------------------------------------------------------------------------


def test_a_disk_that_refuses_parks_the_run_until_it_takes_the_checkpoint(tmp_path, monkeypatch):
    refusing = threading.Event()
    refusing.set()
    save = CheckpointStore.save

    def full(self, snapshot, **options):
        if refusing.is_set():
            raise StorageError("no space left on device")
        return save(self, snapshot, **options)

    monkeypatch.setattr(CheckpointStore, "save", full)
    session = Recipe()(settings(tmp_path, checkpoint_every_steps=2))
    seen: list[dict] = []

    def drive() -> None:
        seen.append(wait_until(session.controller, lambda state: state["parked"]))
        refusing.clear()

    driver = threading.Thread(target=drive)
    driver.start()
    with session:
        session.fit(steps=6)
    driver.join()
    assert "no space left on device" in seen[0]["reason"]
    assert assert_newest_loads(tmp_path / "run", []) == 6


def test_a_full_disk_at_the_end_parks_there_and_a_stop_lets_go(tmp_path, monkeypatch):
    def full(self, snapshot, **options):
        raise StorageError("no space left on device")

    monkeypatch.setattr(CheckpointStore, "save", full)
    session = Recipe()(settings(tmp_path))

    def drive() -> None:
        wait_until(session.controller, lambda state: state["parked"])
        session.controller.stop()

    driver = threading.Thread(target=drive)
    driver.start()
    with pytest.raises(SystemExit, match="the checkpoint of step 2 failed"), session:
        session.fit(steps=2)
    driver.join()
    assert session.run.status == "stopped"


def test_a_run_whose_last_checkpoint_is_refused_late_does_not_finish_without_it(
    tmp_path, monkeypatch
):
    """The disk takes so long to refuse that the last step's boundary has been passed."""
    past, refusing = threading.Event(), threading.Event()
    refusing.set()
    save = CheckpointStore.save

    def full(self, snapshot, **options):
        past.wait()
        if refusing.is_set():
            raise StorageError("no space left on device")
        return save(self, snapshot, **options)

    monkeypatch.setattr(CheckpointStore, "save", full)
    session = Recipe()(settings(tmp_path, checkpoint_every_steps=2))
    boundary = session.controller.boundary.wait_if_paused

    def passed() -> bool:
        going = boundary()
        if session.trainer.step == 2:
            past.set()
        return going

    def drive() -> None:
        control = session.controller
        wait_until(control, lambda state: state["parked"] or state["state"] == "finished")
        refusing.clear()

    monkeypatch.setattr(session.controller.boundary, "wait_if_paused", passed)
    driver = threading.Thread(target=drive)
    driver.start()
    with session:
        session.fit(steps=2)
    driver.join()
    assert steps_on_disk(tmp_path / "run") == [2]


# -- resume ---------------------------------------------------------------------------------------


def trained(tmp_path: Path, recipe: Recipe | None = None, steps: int = 4, **others) -> Path:
    made = recipe if recipe is not None else Recipe()
    with made(settings(tmp_path, checkpoint_every_steps=1, **others)) as session:
        session.on_step(lambda _record: session.checkpoint_writer.wait())
        session.fit(steps=steps)
    return tmp_path / "run"


def test_never_refuses_a_directory_in_use(tmp_path):
    trained(tmp_path)
    with (
        Recipe()(settings(tmp_path, resume="never")) as session,
        pytest.raises(ConfigError, match="already holds a run of 4 steps"),
    ):
        session.fit(steps=5)


def test_must_refuses_to_start_without_a_checkpoint_and_leaves_nothing(tmp_path):
    with (
        Recipe()(settings(tmp_path, resume="must")) as session,
        pytest.raises(ConfigError, match="found no checkpoint"),
    ):
        session.fit(steps=5)
    assert not (tmp_path / "run").exists()


def test_a_resume_needs_a_run_name():
    with pytest.raises(ConfigError, match="needs a run_name"):
        Recipe()({"resume": "auto"})


def test_a_resume_goes_on_in_the_same_run_and_says_from_where(tmp_path):
    run_dir = trained(tmp_path)
    run_id = FactsReader(run_dir).header()["run_id"]
    trained(tmp_path, steps=6)
    assert FactsReader(run_dir).header()["run_id"] == run_id
    (told,) = facts(run_dir, "resume")
    assert (told["step"], told["epoch"], told["path"]) == (4, 1, "checkpoints/4")
    assert FactsReader(run_dir).series(["loss"])["loss"].step.tolist() == [1, 2, 3, 4, 5, 6]


def test_totals_that_are_reached_make_no_further_step(tmp_path):
    trained(tmp_path)
    with Recipe()(settings(tmp_path)) as session:
        session.fit(steps=3)
        assert session.trainer.step == 4


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_fact(tmp_path):
    run_dir = trained(tmp_path)
    file = run_dir / "checkpoints" / "4" / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    trained(tmp_path, steps=5)
    (told,) = facts(run_dir, "checkpoint_refused")
    assert "checkpoint of step 4" in told["reason"]
    assert facts(run_dir, "resume")[0]["step"] == 3


class Wider(Recipe):
    def __call__(self, given):
        session = super().__call__(given)
        session.trainer.parts.model.extra = nn.Linear(1, 1)
        return session


class Faster(Recipe):
    def __call__(self, given):
        session = super().__call__(given)
        parts = session.trainer.parts
        parts.optimizer.defaults["lr"] = parts.optimizer.param_groups[0]["lr"] = 0.5
        return session


class Longer(Case):
    def loader(self):
        loader = super().loader()
        object.__setattr__(loader, "dataset", Augmented(11))
        return loader


class Other(Augmented):
    def __getitem__(self, index):
        return [float(index + 1), *super().__getitem__(index)[1:]]


class OtherContent(Case):
    def loader(self):
        loader = super().loader()
        object.__setattr__(loader, "dataset", Other())
        return loader


class Transformed(Case):
    def loader(self):
        loader = super().loader()
        loader.dataset.transform = "flip"
        return loader


class Plain(Case):
    def loader(self):
        loader = super().loader()
        loader.dataset.transform = "none"
        return loader


class Larger(Case):
    def loader(self):
        return torch.utils.data.DataLoader(
            Augmented(), 5, shuffle=True, collate_fn=super().loader().collate_fn
        )


CHANGES = {
    "model": (Recipe(), Wider()),
    "optimizer": (Recipe(), Faster()),
    "dataset": (Recipe(), Recipe(case=Longer())),
    "dataset content": (Recipe(), Recipe(case=OtherContent())),
    "batch_size": (Recipe(), Recipe(case=Larger())),
    "seed": (Recipe(), Recipe(case=Case(seed=1))),
    "transform": (Recipe(case=Plain()), Recipe(case=Transformed())),
    "order_policy": (Recipe(), Recipe(case=Case(policy="fixed_order"))),
    "accumulate_steps": (Recipe(), Recipe(settings={"accumulate_steps": 2})),
}


@pytest.mark.parametrize("what", CHANGES)
def test_another_training_is_refused_with_the_field_unless_that_is_meant(what, tmp_path):
    before, after = CHANGES[what]
    field = what.split()[0]
    run_dir = trained(tmp_path, before)
    with (
        after(settings(tmp_path)) as session,
        pytest.raises(ConfigError, match=rf"allow_changed=\('{field}',\)"),
    ):
        session.fit(steps=6)
    assert not facts(run_dir, "resume"), "a refusal leaves the run alone"
    with after(settings(tmp_path, allow_changed=(field,))) as session:
        session.fit(steps=6)
        assert session.trainer.step == 6
    (told,) = facts(run_dir, "change_allowed")
    assert told["field"] == field


def test_an_allowed_learning_rate_keeps_the_memory_of_the_optimizer(tmp_path):
    trained(tmp_path, scheduler_interval="step")
    changed = Faster(settings={"allow_changed": ("optimizer",)})
    with changed(settings(tmp_path, scheduler_interval="step")) as session:
        assert session.run.attempt == 2
        optimizer = session.trainer.parts.optimizer
        assert optimizer.param_groups[0]["lr"] == 0.5
        assert all(state["step"] == 4 for state in optimizer.state.values())


def test_load_checkpoint_passes_over_a_damaged_one_with_a_fact(tmp_path):
    run_dir = trained(tmp_path)
    with Recipe()(settings(tmp_path)) as session:
        assert session.command("load_checkpoint")["step"] == 4
        file = run_dir / "checkpoints/4/state.json"
        file.write_bytes(file.read_bytes()[:-1])
        assert session.command("load_checkpoint")["step"] == 3
    (told,) = facts(run_dir, "checkpoint_refused")
    assert str(file) in told["reason"]


def test_load_checkpoint_refuses_one_from_before_a_change_and_moves_nothing(tmp_path):
    trained(tmp_path)
    given = settings(tmp_path, allow_changed=("model", "dataset"))
    with Wider(case=Longer())(given) as session:
        assert session.run.attempt == 2  # opened, and resumed
        before = session.trainer.state.take()
        with pytest.raises(ControlError, match="before model, dataset changed"):
            session.command("load_checkpoint", step=2)
        assert_same(session.trainer.state.take().state_tree(), before.state_tree())
