"""`back` and its kin on an attached loop: the same bits again, or a refusal with the reason."""

from __future__ import annotations

import pytest
import torch

from midstep.control import Command
from midstep.core.errors import ControlError
from midstep.facts import FactsReader
from midstep.live import attach
from tests.checkers.neutral import wait_until
from tests.live.resumable import EPOCHS, STEPS, Resumable
from tests.live.test_attach import parked_at, series
from tests.live.trainer import Plain, in_thread

LOADERS = {
    "no workers": {},
    "2 persistent": {"num_workers": 2, "persistent_workers": True},
    "fixed order": {"policy": "fixed_order"},
}


def ask(control, name: str, **payload):
    return control.submit(Command(name=name, payload=payload)).result(30)


def never_due(ring) -> None:
    """Let the ring take only the first state of an epoch, so that every step is repeated."""
    ring._share = 1e-9


@pytest.mark.parametrize("how", LOADERS.values(), ids=LOADERS.keys())
@pytest.mark.parametrize("repeat", [False, True], ids=["from the ring", "by repeating"])
def test_back_and_on_again_gives_the_same_bits(tmp_path, how, repeat):
    whole = Resumable(tmp_path / "whole", **how)
    with whole.attach() as run:
        whole.train(run)
    digest = whole.digest(generator=False)
    again = Resumable(tmp_path, **how)
    attached = again.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, again.train):
        wait_until(control, parked_at(0))
        if repeat:
            never_due(attached._loop._engine.rewind.ring)
        control.run_until(step=10)
        wait_until(control, parked_at(10))
        for n in (1, 3):
            ask(control, "back", n=n)
            state = wait_until(control, parked_at(10 - n))
            assert state["timeline"] > 0
            control.step(n)
            wait_until(control, parked_at(10))
        ask(control, "back", step=6)  # the first boundary of this epoch
        wait_until(control, parked_at(6))
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    final = {step: (step, ids, loss) for step, ids, loss in again.seen}
    assert [final[step] for step in range(1, STEPS + 1)] == whole.seen
    assert all((step, ids, loss) in whole.seen for step, ids, loss in again.seen)
    steps, losses = series(attached.dir, "loss")
    assert steps == list(range(1, STEPS + 1))
    assert losses == [float.fromhex(loss) for _, _, loss in whole.seen]
    assert again.digest(generator=False) == digest
    whole.end_workers()
    again.end_workers()


def test_repeated_steps_write_no_facts_and_trip_no_breakpoint(tmp_path):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        never_due(attached._loop._engine.rewind.ring)
        control.run_until(step=5)
        wait_until(control, parked_at(5))
        stopper = control.add_breakpoint("metric", name="loss", op=">", value=-1.0)
        before = attached.facts.seq
        ask(control, "back", n=1)
        wait_until(control, parked_at(4))
        assert stopper.hits == 0
        assert control.get_batch()["sample_ids"] == training.seen[3][1]
        rows = attached.facts.seq - before
        control.remove_breakpoint(stopper.id)
    # The command, the rewind, the comparison with the record, the checkpoints of both pauses, the
    # one that a resume starts from, and what is kept of the stop at step 5.
    assert rows <= 7


def test_a_change_after_going_back_is_another_timeline(tmp_path):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        control.run_until(step=4)
        wait_until(control, parked_at(4))
        ask(control, "back", n=2)
        assert ask(control, "set_hparams", lr_mul=0.5) == {"old": {"lr": [1e-2]}}
        assert control.get_state()["lr"] == 5e-3
        control.step(2)
        wait_until(control, parked_at(4))
        ask(control, "back", n=1)  # repeats with the rate as it was changed
        wait_until(control, parked_at(3))
        control.step(1)
        wait_until(control, parked_at(4))
    losses: dict[int, list[str]] = {}
    for step, _ids, loss in training.seen:
        losses.setdefault(step, []).append(loss)
    assert losses[3][0] == losses[3][1]  # the rate acts behind the third step's loss
    assert losses[4][0] != losses[4][1] == losses[4][-1]
    changes = [e for e in FactsReader(attached.dir).events() if e.get("kind") == "hparams"]
    assert [(e["old"], e["new"]) for e in changes] == [({"lr": [1e-2]}, {"lr": [5e-3]})]


def test_save_and_load_inside_an_epoch(tmp_path):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        control.run_until(step=2)
        wait_until(control, parked_at(2))
        assert ask(control, "saveCheckpoint")["step"] == 2
        control.step(2)
        wait_until(control, parked_at(4))
        assert ask(control, "load_checkpoint", step=2)["timeline"] == 1
        assert control.get_state()["step"] == 2
        control.step(2)
        wait_until(control, parked_at(4))
        control.run_until(step=8)
        wait_until(control, parked_at(8))
        with pytest.raises(ControlError, match="go back inside the running epoch"):
            ask(control, "load_checkpoint", step=2)
    assert training.seen[2:4] == training.seen[4:6]


# -- refusals -------------------------------------------------------------------------------------


def test_beyond_the_epoch_there_is_no_way_back_and_the_reason_is_given(tmp_path):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        control.run_until(step=8)
        wait_until(control, parked_at(8))
        with pytest.raises(ControlError, match="back inside the running epoch"):
            ask(control, "back", n=3)
        with pytest.raises(ControlError, match="is not before step 8"):
            ask(control, "back", step=9)
        assert control.get_state()["step"] == 8


def test_behind_a_pass_that_was_left_there_is_no_way_back(tmp_path):
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path, start_paused=True)
    control = attached.controller

    def body(run):
        for _ in run.epochs(2):
            for x, _y in plain.loader:
                plain.step(x)
                if run.step == 1:
                    break

    with in_thread(attached, body):
        wait_until(control, parked_at(0))
        control.step(2)
        wait_until(control, parked_at(2))
        with pytest.raises(ControlError, match="has left its pass"):
            ask(control, "back", n=1)


def test_a_running_loop_is_not_taken_back(tmp_path):
    plain = Plain(4000)
    attached = attach(*plain.parts, save_dir=tmp_path, start_paused=True)
    with in_thread(attached, lambda run: plain.train(run, epochs=50)):
        wait_until(attached.controller, parked_at(0))
        attached.controller.resume()
        with pytest.raises(ControlError, match="pause it first"):
            ask(attached.controller, "back", n=1)


def test_without_a_ring_or_an_order_the_reason_is_given(tmp_path):
    class Bare:
        def __iter__(self):
            return iter([torch.ones(4, 2)] * 6)

    for loader, settings, reason in (
        (Plain().loader, {"rewind_steps": 0}, "rewind_steps=0"),
        (Bare(), {}, "order of a Bare is unknown"),
    ):
        plain = Plain()
        attached = attach(
            plain.model, plain.optimizer, loader, save_dir=tmp_path, start_paused=True, **settings
        )
        control = attached.controller

        def body(run, loader=loader, plain=plain):
            for x in loader:
                plain.step(x if torch.is_tensor(x) else x[0])

        with in_thread(attached, body):
            wait_until(control, parked_at(0))
            control.step(2)
            wait_until(control, parked_at(2))
            with pytest.raises(ControlError, match=reason):
                ask(control, "back", n=1)
            assert "old" in ask(control, "set_hparams", lr=1e-5)


# -- checkpoints ----------------------------------------------------------------------------------


def test_checkpoints_come_at_pauses_epoch_ends_and_the_end(tmp_path):
    training = Resumable(tmp_path)
    attached = training.attach(start_paused=True)
    control = attached.controller
    with in_thread(attached, training.train):
        wait_until(control, parked_at(0))
        control.step(1)
        wait_until(control, parked_at(1))
        control.resume()
        wait_until(control, lambda state: state["state"] == "finished")
    told = [e for e in FactsReader(attached.dir).events() if e.get("kind") == "checkpoint"]
    assert told[0]["cause"] == "pause"
    assert told[0]["step"] == 1
    causes = [(e["cause"], e["step"], e["epoch"]) for e in told[1:]]
    assert causes[-1][1:] == (STEPS, EPOCHS)
    assert {cause for cause, _, _ in causes} <= {"epoch", "end"}


def test_a_fault_of_ours_switches_checkpoints_off_and_training_goes_on(tmp_path, caplog):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        run._loop._engine.state.take = None
        plain.train(run)
    assert run.step == 12
    assert [r.message for r in caplog.records] == [
        "taking a snapshot raised; going back is off, training continues",
        "taking a checkpoint failed and is off; training continues",
    ]
