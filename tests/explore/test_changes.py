"""What changed before a stop, compared with a slow twin that looks at one pair of steps."""

from __future__ import annotations

import math
import random

import pytest

from midstep.explore.diagnosis.changes import Change, SampleShare, StepNumbers, what_changed

KEYS = ("inputs", "lr", "grad_norm", "batch_size", "loss_share", "dead")


def slow_twin(steps: list[StepNumbers], broken: int | None, share: float | None) -> dict[str, int]:
    """The step at which each thing began to change, for those that did."""
    changed: dict[str, int] = {}
    last = steps[-1]
    for at in range(max(1, len(steps) - 20), len(steps)):
        old, new = steps[at - 1].rates["lr"], steps[at].rates["lr"]
        if "lr" not in changed and (new >= 1.5 * old or new <= old / 1.5):
            changed["lr"] = steps[at].step
    for at in range(max(0, len(steps) - 20), len(steps)):
        norm = steps[at].grad_norm
        before = sorted(each.grad_norm for each in steps[:at] if math.isfinite(each.grad_norm))
        middle = before[len(before) // 2] if len(before) % 2 else None
        if before and middle is None:
            middle = (before[len(before) // 2 - 1] + before[len(before) // 2]) / 2
        is_jump = len(before) >= 3 and norm > 4 * middle
        if "grad_norm" not in changed and (not math.isfinite(norm) or is_jump):
            changed["grad_norm"] = steps[at].step
    sizes = [each.samples for each in steps]
    for size in set(sizes):
        if sizes.count(size) * 2 > len(sizes) and size != last.samples:
            changed["batch_size"] = last.step
    if broken:
        changed["inputs"] = last.step
    if share is not None and share > max(0.25, min(5 / last.samples, 0.9)):
        changed["loss_share"] = last.step
    for layer in ("a", "b"):
        if last.dead[layer] > 0.5 and "dead" not in changed:
            changed["dead"] = next(each.step for each in steps if each.dead[layer] > 0.5)
    return changed


def random_steps(draw: random.Random) -> list[StepNumbers]:
    rate, steps = 0.1, []
    for step in range(1, draw.randint(2, 40)):
        rate *= draw.choice([1, 1, 1, 1, 1.1, 3, 0.5])
        steps.append(
            StepNumbers(
                step=step,
                rates={"lr": rate},
                grad_norm=draw.choice([1.0, 1.2, 0.8, 0.9, 9.0, math.nan])
                if draw.random() < 0.3
                else 1.0,
                samples=draw.choice([16, 16, 16, 5]),
                dead={"a": draw.choice([0.1, 0.6]), "b": draw.choice([0.2, 0.9])},
            )
        )
    return steps


def test_changes_are_those_of_the_slow_twin() -> None:
    draw = random.Random(5)
    for _ in range(300):
        steps = random_steps(draw)
        if not steps:
            continue
        broken, share = draw.choice([None, 0, 7]), draw.choice([None, 0.1, 0.3, 0.95])
        samples = steps[-1].samples
        given = None if share is None else SampleShare(share=share, name="it", samples=samples)
        changes = what_changed(steps, broken_inputs=broken, share=given)
        found = {each.key: each.step for each in changes if each.is_changed}
        assert found == slow_twin(steps, broken, share)
        assert {each.key for each in changes} <= set(KEYS)
        assert all(len(each.line) == len(steps[-20:]) for each in changes)
        known = [each.step is not None for each in changes]
        assert known == sorted(known, reverse=True), "what did not change comes last"


@pytest.mark.parametrize(
    ("name", "reading"),
    [("sample 1,234", "Sample 1,234"), ("the sample at position 20", "Position 20")],
)
def test_the_largest_share_names_its_sample_in_few_words(name: str, reading: str) -> None:
    steps = [StepNumbers(step=n, samples=32) for n in range(1, 4)]
    share = SampleShare(share=0.69, name=name, samples=32)
    changes = {each.key: each for each in what_changed(steps, share=share)}
    assert changes["loss_share"].reading == reading


def named(changes: list[Change]) -> list[tuple[str, int | None, str, bool]]:
    return [(each.what, each.step, each.reading, each.is_cause) for each in changes]


def test_the_proven_cause_comes_first_then_the_others_by_step() -> None:
    norms = [1.0] * 6 + [4.5, math.nan]
    steps = [
        StepNumbers(
            step=step, rates={"lr": 0.1 if step < 7 else 0.5}, grad_norm=norms[step - 1], samples=64
        )
        for step in range(1, 9)
    ]
    changes = what_changed(steps, broken_inputs=112, proven="inputs")
    assert named(changes) == [
        ("Non-finite inputs", 8, "First, explains the rest", True),
        ("Learning rate", 7, "× 5", False),
        ("Gradient norm", 7, "× 4.5 with the rate", False),
        ("Batch size", None, "Same", False),
    ]


@pytest.mark.parametrize(("factor", "is_cause"), [(80.0, True), (0.1, False)])
def test_only_a_rate_that_rises_is_a_cause(factor: float, is_cause: bool) -> None:
    steps = [StepNumbers(step=n, rates={"lr": 1.0 if n < 3 else factor}) for n in range(1, 6)]
    assert [each.is_cause for each in what_changed(steps)] == [is_cause]


def test_each_optimizer_has_a_rate_of_its_own() -> None:
    rates = {"lr": 0.1, "lr.G": 0.1, "lr.D": 0.4}
    steps = [StepNumbers(step=1, rates=rates), StepNumbers(step=2, rates={**rates, "lr.D": 4.0})]
    assert [(each.what, each.step) for each in what_changed(steps)] == [
        ("Learning rate of D", 2),
        ("Learning rate of G", None),
    ]


def test_norms_from_before_the_steps_give_the_median() -> None:
    """Where norms are measured seldom, the window has that of the stop alone."""
    steps = [StepNumbers(step=n, grad_norm=9.0 if n == 30 else None) for n in range(10, 31)]
    assert [each.key for each in what_changed(steps)] == []
    (norm,) = what_changed(steps, older_norms=[1.0, 1.5, 1.2])
    assert (norm.before, norm.after, norm.step, norm.reading) == (1.2, 9.0, 30, "× 7.5")
