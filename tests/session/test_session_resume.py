"""Killed anywhere and started again, a session goes on as if nothing had happened.

Lives end here by an error that nothing handles; `tests/faults/test_session_kills.py` ends real
processes with `kill -9`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from midstep.core.errors import ConfigError, FormatError
from tests.checkers.resume import assert_session_resumes
from tests.data.order.loaders import SAMPLERS, Case
from tests.session.sessions import Recipe

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")

SEEDED = ["epoch_reseed", "fixed_order"]
TWO = {"accumulate_steps": 2}
STEPS = 6


# -- samplers and policies ------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*SEEDED, "user"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_resumes(sampler, policy, tmp_path):
    recipe = Recipe(case=Case(sampler=sampler, policy=policy), settings=TWO)
    assert_session_resumes(recipe, tmp_path, kills=[2, 4], steps=5)


@pytest.mark.parametrize("policy", [*SEEDED, "user"])
def test_a_session_resumes_at_every_boundary(policy, tmp_path):
    """Three batches an epoch, the last one partial: batch 0, 1, last, the epoch's end, inside."""
    recipe = Recipe(case=Case(policy=policy), validate=True)
    assert_session_resumes(recipe, tmp_path, kills=range(1, 8), steps=8)


@pytest.mark.parametrize("policy", [*SEEDED, "user"])
def test_a_session_resumes_from_a_checkpoint_far_behind(policy, tmp_path):
    """Steps behind the checkpoint are made again and must be the same; three kills in an epoch."""
    recipe = Recipe(case=Case(sampler="replacement", policy=policy), settings=TWO)
    kills = [1, 3, 4, 4]  # thirty-seven samples: five steps an epoch
    assert_session_resumes(recipe, tmp_path, kills=kills, steps=8, checkpoint_every_steps=3)


# -- workers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", SEEDED)
def test_saved_with_any_worker_count_and_resumed_with_any_other(policy, tmp_path):
    """Lives with 0, 1, 2 and 4 workers, so that each count follows each other one."""
    recipe = Recipe(case=Case(policy=policy), settings=TWO)
    counts = [0, 1, 0, 2, 1, 4, 2, 0, 4, 1, 2, 4, 0]
    assert {*itertools.pairwise(counts)} >= {*itertools.permutations((0, 1, 2, 4), 2)}
    lives = [
        (recipe.with_workers(workers, persistent=workers > 0 and step % 2 == 0), step)
        for step, workers in enumerate(counts, start=1)
    ]
    assert_session_resumes(recipe, tmp_path, kills=lives, steps=len(counts) + 1)


@pytest.mark.parametrize("persistent", [False, True], ids=["new workers", "persistent workers"])
def test_policy_user_resumes_with_workers_that_draw_nothing(persistent, tmp_path):
    case = Case(policy="user", workers=2, persistent=persistent, draws=False)
    assert_session_resumes(Recipe(case=case), tmp_path, kills=[2, 3, 4], steps=5)


def test_a_stream_resumes_with_the_same_number_of_workers(tmp_path):
    case = Case(sampler="iterable", workers=2, persistent=True)
    assert_session_resumes(Recipe(case=case), tmp_path, kills=[1, 4], steps=STEPS)


# -- schedulers, accumulation, skipped steps ------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["none", "one cycle", "plateau"])
def test_every_kind_of_scheduler_resumes(scheduler, tmp_path):
    recipe = Recipe(scheduler=scheduler, validate=True)
    assert_session_resumes(recipe, tmp_path, kills=[2, 3, 5], steps=STEPS)


def test_a_session_resumes_before_and_after_a_skipped_step(tmp_path):
    """Every window of the first epoch but one meets a loss that is not a number."""
    recipe = Recipe(poison=(0, 9), settings=TWO)
    made = assert_session_resumes(recipe, tmp_path, kills=[1, 2, 3], steps=STEPS)
    assert "nan" in made.losses.values()


def test_clipping_and_autocast_resume(tmp_path):
    recipe = Recipe(settings={"grad_clip_norm": 0.1, "amp": "bf16"})
    assert_session_resumes(recipe, tmp_path, kills=[1, 4], steps=STEPS)


def test_the_checker_sees_a_generator_that_is_not_put_back(tmp_path, monkeypatch):
    from midstep.session.state.snapshot import Snapshot

    restore = Snapshot.restore
    monkeypatch.setattr(
        Snapshot, "restore", lambda self, parts, **kw: restore(self, parts, random=False)
    )
    with pytest.raises(AssertionError):
        # The check of the resume would draw just the numbers that this resume has not restored.
        assert_session_resumes(Recipe(), tmp_path, kills=[2], steps=4, resume_check=False)


def test_the_checker_sees_a_cursor_that_counts_fetched_batches(tmp_path, monkeypatch):
    from midstep.data.order.ordered_loader import OrderedLoader

    saved = OrderedLoader.state_dict
    monkeypatch.setattr(
        OrderedLoader,
        "state_dict",
        lambda self: {**saved(self), "cursor": self.cursor and 8, "checksum": None},
    )
    with pytest.raises(AssertionError, match="made again gave"):
        assert_session_resumes(Recipe(), tmp_path, kills=[2], steps=4)


# -- what cannot be exact is refused before step 0 ------------------------------------------------


class Counting(torch.utils.data.Sampler):
    """Keeps state from one pass to the next."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        return iter([(index + self.passes) % 10 for index in range(10)])

    def __len__(self):
        return 10


class Remembering(torch.utils.data.IterableDataset):
    """A stream without a state."""

    def __iter__(self):
        return iter([[float(index)] for index in range(10)])


REFUSED = {
    "a sampler with hidden state": (
        lambda: torch.utils.data.DataLoader([[0.0]] * 10, 4, sampler=Counting()),
        "gives another order",
    ),
    "a stream without a state": (
        lambda: torch.utils.data.DataLoader(Remembering(), 4),
        "has no state_dict",
    ),
    "an unordered loader": (
        lambda: torch.utils.data.DataLoader([[0.0]] * 10, 4, num_workers=2, in_order=False),
        "in_order",
    ),
    "no loader at all": (lambda: [[0.0]] * 10, "use a DataLoader"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exact_is_refused_before_the_first_step(what, tmp_path):
    make_loader, reason = REFUSED[what]

    class Odd(Case):
        def loader(self):
            return make_loader()

    with pytest.raises(ConfigError, match=reason):
        Recipe(case=Odd())({"save_dir": tmp_path})
    assert not list(tmp_path.iterdir())


def test_policy_user_refuses_a_loader_that_hands_batches_out_of_order(tmp_path):
    """Its batches would get the ids of others."""

    class Unordered(Case):
        def loader(self):
            return torch.utils.data.DataLoader([[0.0]] * 10, 4, num_workers=1, in_order=False)

    for enforce in (True, False):
        with pytest.raises(ConfigError, match="in_order"):
            Recipe(case=Unordered(policy="user"))(
                {"save_dir": tmp_path, "enforce_sampler_state": enforce}
            )


def test_policy_user_sees_hidden_state_of_a_sampler_at_the_resume(tmp_path):
    class Hidden(Case):
        def loader(self):
            loader = super().loader()
            sampler = Counting()
            sampler.passes = next(starts)
            return torch.utils.data.DataLoader(
                loader.dataset, 4, sampler=sampler, collate_fn=loader.collate_fn
            )

    starts = iter([0, 5])
    recipe = Recipe(case=Hidden(policy="user"))
    given = {"save_dir": tmp_path, "run_name": "run", "resume": "auto"}
    with recipe(given) as session:
        session.fit(steps=2)
    with recipe(given) as session, pytest.raises(FormatError, match="keeps state of its own"):
        session.fit(steps=4)


def test_policy_user_refuses_workers_that_draw(tmp_path):
    recipe = Recipe(case=Case(policy="user", workers=1))
    with (
        recipe({"save_dir": tmp_path}) as session,
        pytest.raises(ConfigError, match="its workers draw random numbers"),
    ):
        session.fit(steps=2)
    assert session.trainer.step == 0


def test_without_enforcement_policy_user_reports_them_once(tmp_path):
    recipe = Recipe(case=Case(policy="user", workers=1), settings={"enforce_sampler_state": False})
    with recipe({"save_dir": tmp_path}) as session:
        session.fit(steps=4)
        facts = session.run.facts
        run_dir = session.dir
    from midstep.facts import FactsReader

    told = [e for e in FactsReader(run_dir).events() if e.get("kind") == "inexact"]
    assert len(told) == 1, facts
    assert "its workers draw random numbers" in told[0]["reason"]


# -- all of it ------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("workers", [0, 1, 2, 4])
@pytest.mark.parametrize("policy", SEEDED)
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if "iterable" not in name])
def test_every_sampler_resumes_with_every_other_worker_count(sampler, policy, workers, tmp_path):
    recipe = Recipe(case=Case(sampler=sampler, policy=policy), settings=TWO, validate=True)
    saved = recipe.with_workers(workers)
    others = [replace(saved, case=saved.case.with_(workers=other)) for other in (0, 1, 2, 4)]
    lives = [
        life
        for step, other in enumerate(others)
        for life in ((saved, 2 * step + 1), (other, 2 * step + 2))
    ]
    assert_session_resumes(recipe, tmp_path, kills=lives, steps=9)
