"""Going back and forward again gives the same bits; a change after it is another timeline."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from midstep.control import Command
from midstep.core.errors import ControlError
from midstep.facts import FactsReader
from midstep.session import Session
from midstep.session.engine.lineage import read_lineage
from tests.data.order.loaders import Case
from tests.session.same import assert_same
from tests.session.sessions import Recipe

STEPS = 12
PER_EPOCH = 3
RECIPE = Recipe(case=Case(policy="epoch_reseed"), validate=True)
TIMEOUT_S = 60.0


class Driven:
    """A session whose loop runs in a thread of its own, driven from the test."""

    def __init__(self, session: Session) -> None:
        self.session, self.control = session, session.controller
        self.records: dict[int, list[Any]] = {}
        assert session.run is not None  # opens it
        self.control.pause()
        session.on_step(self._note)
        self.thread = threading.Thread(target=self._fit)
        self.error: BaseException | None = None
        self.thread.start()
        self.ask("pause")  # answered once it stands before its first step

    def _fit(self) -> None:
        try:
            self.session.fit(steps=STEPS)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self.error = error

    def _note(self, record: Any) -> None:
        self.records.setdefault(record.step, []).append((list(record.sample_ids), record.loss))

    def ask(self, name: str, **payload: Any) -> Any:
        return self.control.submit(Command(name=name, payload=payload)).result(TIMEOUT_S)

    def state(self) -> dict[str, Any]:
        """The whole state, read while the loop stands."""
        return self.session.trainer.state.take().state_tree()

    def end(self) -> None:
        if self.thread.is_alive():
            self.control.stop()
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()


@contextmanager
def driven(recipe: Recipe, folder: Path, **settings: Any) -> Iterator[Driven]:
    session = recipe({"save_dir": folder, "run_name": "run", **settings})
    made = Driven(session)
    try:
        yield made
    finally:
        made.end()
        session.close()
    if made.error is not None:
        raise made.error


@pytest.mark.parametrize("policy", ["epoch_reseed", "fixed_order", "user"])
@pytest.mark.parametrize(("at", "n"), [(2, 1), (8, 7), (4, 2), (11, 9)], ids=str)
def test_back_and_forward_again_gives_the_same_bits(policy, at, n, tmp_path):
    recipe = replace(RECIPE, case=Case(policy=policy), scheduler="plateau")
    with driven(recipe, tmp_path) as run:
        run.ask("step", n=at)
        first, before = copy.deepcopy(run.records), run.state()
        told = run.session.back(n)
        assert (told["step"], told["timeline"], told["exact"]) == (at - n, 1, True)
        assert run.control.boundary.finished_steps == at - n
        run.ask("step", n=n)
        assert run.state()["model"].keys() == before["model"].keys()
        assert_same(run.state(), before)
        for step in range(at - n + 1, at + 1):
            assert run.records[step] == [*first[step], first[step][0]]


def test_back_to_an_earlier_step_and_to_the_beginning(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        begun = run.state()
        run.ask("step", n=5)
        assert run.session.back(step=3)["step"] == 3
        assert run.session.back(step=0)["timeline"] == 2
        assert_same(run.state(), begun)


def test_replay_calls_no_hook_writes_no_fact_and_trips_no_breakpoint(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.session.rewind.ring.budget_bytes = 1 << 20
        run.ask("step", n=7)
        _only_first(run)
        calls, seq = copy.deepcopy(run.records), run.session.run.facts.seq
        run.control.add_breakpoint("every", n=1)
        told = run.session.back(2)
        assert told["replayed"] == 5
        assert run.records == calls
        kinds = [event.get("kind") for event in FactsReader(run.session.dir).events(seq)]
        # Of the pauses before and after it, and of the comparison.
        pauses = ("command", "rewind", "checkpoint", "repeated_steps")
        assert [kind for kind in kinds if kind not in pauses] == []
        assert kinds.count("rewind") == 1


def _only_first(run: Driven) -> None:
    """Leave only the oldest snapshot, so that going back has to repeat steps."""
    ring = run.session.rewind.ring
    ring.forget_after(ring.first_step)


def test_a_change_after_going_back_is_a_new_timeline_and_the_old_one_stays(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=8)
        run.session.back(3)
        assert read_lineage(run.session.dir)["edges"] == []
        run.session.command("set_hparams", lr=0.5)
        run.ask("step", n=3)
        first, second = run.records[8]
        assert first != second
        folder = run.session.dir
    reader = FactsReader(folder)
    new, old = reader.series(["loss"])["loss"], reader.series(["loss"], timeline=0)["loss"]
    assert old.low[-1] == first[1]
    assert new.low[-1] == second[1]
    assert old.step.tolist() == new.step.tolist() == list(range(1, 9))
    assert old.low[:5].tolist() == new.low[:5].tolist()
    (edge,) = read_lineage(folder)["edges"]
    assert (edge["kind"], edge["timeline"], edge["parent_timeline"], edge["step"]) == (
        "timeline",
        1,
        0,
        5,
    )
    assert edge["interventions"][0]["kind"] == "hparams"
    (rewind,) = reader.rewinds()
    assert (rewind.timeline, rewind.parent, rewind.from_step, rewind.step) == (1, 0, 8, 5)


def test_going_back_behind_a_change_repeats_the_change(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=2)
        run.session.command("set_hparams", lr=0.5)
        run.ask("step", n=4)
        before, losses = run.state(), run.records[6][0]
        told = run.session.back(2)
        assert told["exact"]
        run.ask("step", n=2)
        assert run.records[6][1] == losses
        assert_same(run.state(), before)
        run.session.rewind.ring.clear()
        with pytest.raises(ControlError, match="no way back"):
            run.session.back(5)


def test_the_ring_stays_inside_rewind_bytes(tmp_path):
    budget = 300_000
    with driven(RECIPE, tmp_path, rewind_bytes=budget) as run:
        for _ in range(STEPS - 1):
            run.ask("step", n=1)
            told = run.control.status.get_rewind()
            assert told["bytes"] <= told["budget_bytes"] == budget
        assert told["available"]
        assert told["snapshot_steps"][0] == told["first_step"]
        assert run.session.back(step=told["first_step"])["step"] == told["first_step"]


def test_back_needs_a_parked_run_a_step_behind_and_a_ring(tmp_path):
    with driven(RECIPE, tmp_path, rewind_steps=0) as run:
        run.ask("step", n=2)
        for asked, words in (({"n": 1}, "rewind_steps=0"), ({"step": 5}, "not before")):
            with pytest.raises(ControlError, match=words):
                run.session.command("back", **asked)
        with pytest.raises(ControlError, match="not both"):
            run.session.command("back", n=1, step=1)
        assert not run.control.status.get_rewind()["available"]
        assert run.session.trainer.step == 2


def test_a_cancelled_replay_returns_to_where_it_was(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=8)
        _only_first(run)
        before, training = run.state(), run.session.trainer
        slices = _slow(run, lambda: run.session.rewind.back(_payload(1)))
        next(slices)
        assert training.step < 7
        slices.close()
        assert training.step == 8
        assert training.state.timeline == 0
        assert_same(run.state(), before)
        assert run.session.back(1)["exact"]


def _payload(n: int) -> Any:
    from midstep.core.commands.catalog import BackPayload

    return BackPayload(n=n)


def _slow(run: Driven, begin: Callable[[], Any]) -> Any:
    """Slices that end after every step: the loop stands meanwhile, so the test may drive them."""
    ticks = iter(range(10_000))
    run.session.rewind._replay._clock = lambda: float(next(ticks))
    return begin()


def test_a_replay_that_comes_out_otherwise_is_told(tmp_path):
    noise = iter(range(1, 1000))

    with driven(RECIPE, tmp_path) as run:
        head: Any = run.session.trainer.parts.model.head
        head.register_forward_hook(lambda _head, _given, out: out * (1.0 + next(noise) / 1000))
        run.ask("step", n=5)
        _only_first(run)
        told = run.session.back(1)
        assert not told["exact"]
        assert told["first_difference"]["step"] == 1
        assert told["first_difference"]["what"] == "loss"


def test_a_hook_that_changes_the_training_makes_a_replay_that_is_told(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        optimizer = run.session.trainer.parts.optimizer

        def faster(record: Any) -> None:
            if record.step == 2:
                optimizer.param_groups[0]["lr"] = 1.0

        run.session.on_step(faster)
        run.ask("step", n=5)
        _only_first(run)
        told = run.session.back(1)
        assert told["first_difference"] == {"step": 3, "what": "lr"}
        assert (told["exact"], told["verdict"]) == (False, "moved")


def test_loading_a_checkpoint_and_a_reset_leave_no_way_back_to_what_was_left(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=3)
        run.session.command("save_checkpoint")
        run.ask("step", n=3)
        assert run.session.command("load_checkpoint", step=3)["timeline"] == 1
        told = run.control.status.get_rewind()
        assert (told["step"], told["timeline"], told["available"]) == (3, 1, False)
        run.ask("step", n=2)
        assert run.session.back(1)["step"] == 4


def test_state_and_watches_follow_a_step_back(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.control.watches.replace([0], source="head.weight")
        run.ask("step", n=6)
        run.session.back(4)
        state = run.control.get_state()
        assert (state["step"], state["timeline"], state["state"]) == (2, 1, "paused")
        assert [point["step"] for point in run.control.get_trajectories()[0]] == [1, 2]
        run.ask("step", n=1)
        assert [point["step"] for point in run.control.get_trajectories()[0]] == [1, 2, 3]


def test_lineage_survives_a_restart(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=4)
        run.session.back(2)
        run.ask("save_checkpoint")
        folder = run.session.dir
    with driven(RECIPE, tmp_path, resume="must") as run:
        assert run.session.trainer.state.timeline == 1
        run.session.command("set_hparams", lr_mul=0.5)
    (edge,) = json.loads((folder / "lineage.json").read_text())["edges"]
    assert (edge["timeline"], edge["parent_timeline"], edge["step"]) == (1, 0, 2)


@pytest.mark.parametrize(
    "recipe",
    [
        replace(RECIPE, settings={"accumulate_steps": 2}, scheduler="one cycle"),
        replace(RECIPE, poison=(3, 5)),
        RECIPE.with_workers(1, persistent=True),
        replace(RECIPE, case=Case(sampler="iterable"), validate=False),
    ],
    ids=str,
)
def test_back_over_skipped_steps_windows_and_workers_gives_the_same_bits(recipe, tmp_path):
    with driven(recipe, tmp_path) as run:
        run.ask("step", n=5)
        before, losses = run.state(), {step: each[0] for step, each in run.records.items()}
        _only_first(run)
        told = run.session.back(4)
        assert (told["replayed"], told["exact"]) == (1, True)
        run.ask("step", n=4)
        assert_same(run.state(), before)
        assert all(repr(run.records[step][1]) == repr(losses[step]) for step in range(2, 6))


def test_cancelled_without_room_to_return_it_stands_where_it_came_to(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=8)
        _only_first(run)
        ring = run.session.rewind.ring
        ring.budget_bytes = ring.bytes + 1
        slices = _slow(run, lambda: run.session.rewind.back(_payload(1)))
        next(slices)
        slices.close()
        reached = run.session.trainer.step
        assert 0 < reached < 7
        assert (run.control.boundary.finished_steps, run.session.trainer.state.timeline) == (
            reached,
            1,
        )
        run.ask("step", n=8 - reached)
        assert run.records[8][0] == run.records[8][1]


def test_an_error_in_a_repeated_step_returns_to_where_it_was(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=6)
        _only_first(run)
        before, training = run.state(), run.session.trainer
        advance, calls = training.advance, iter(range(100))

        def failing() -> Any:
            if next(calls) == 2:
                raise RuntimeError("a step that fails the second time")
            return advance()

        training.advance = failing
        with pytest.raises(ControlError, match="fails the second time"):
            run.session.back(1)
        training.advance = advance
        assert training.step == run.control.boundary.finished_steps == 6
        assert_same(run.state(), before)


class Slow:
    """Holds the repeated steps of a session up until it is told to let them go."""

    def __init__(self, run: Driven) -> None:
        self.inside, self.go = threading.Event(), threading.Event()
        training = run.session.trainer
        self._advance = training.advance
        training.advance = self.advance
        run.session.rewind._replay._clock = iter(range(10_000)).__next__

    def advance(self) -> Any:
        self.inside.set()
        assert self.go.wait(TIMEOUT_S)
        return self._advance()


def test_the_state_says_rewinding_others_are_refused_and_cancel_returns(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=6)
        _only_first(run)
        slow, command = Slow(run), Command(name="back", payload={"n": 1})
        future = run.control.submit(command)
        assert slow.inside.wait(TIMEOUT_S)
        state = run.control.get_state()
        assert (state["state"], state["busy_with"]) == ("rewinding", command.id)
        assert run.control.status.phase == "rewinding to step 5"
        for name in ("step", "resume", "back"):
            with pytest.raises(ControlError, match="busy with back"):
                run.ask(name)
        assert run.control.queue.cancel(command.id)
        slow.go.set()
        with pytest.raises(ControlError, match="cancelled"):
            future.result(TIMEOUT_S)
        state = run.control.get_state()
        assert (state["state"], state["step"], state["timeline"]) == ("paused", 6, 0)
        assert run.control.status.phase is None


def test_a_stop_in_the_middle_of_going_back_keeps_where_the_run_was(tmp_path):
    with driven(RECIPE, tmp_path) as run:
        run.ask("step", n=6)
        _only_first(run)
        slow = Slow(run)
        back = run.control.submit(Command(name="back", payload={"n": 1}))
        assert slow.inside.wait(TIMEOUT_S)
        stop = run.control.submit(Command(name="stop"))
        slow.go.set()
        stop.result(TIMEOUT_S)
        assert isinstance(back.exception(TIMEOUT_S), ControlError)
        run.thread.join(TIMEOUT_S)
        newest = run.session.checkpoint_writer.checkpoints.newest_valid()
        assert newest is not None
        assert (newest.snapshot.step, newest.snapshot.timeline) == (6, 0)
