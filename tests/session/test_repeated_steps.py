"""The verdict on repeated steps: exact, moved, differs, close; and what explains a difference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from midstep.session.rewind.repeated_steps import Circumstances, RepeatedSteps, StepComparison
from midstep.session.state.training_state import StepMark

RECORD = {
    step: StepMark(step * 7, 0.1, 1.0 / step, step if step % 2 == 0 else None)
    for step in range(1, 7)
}


def compared(
    changed: dict[int, StepMark],
    *,
    record: dict[int, StepMark] = RECORD,
    circumstances: Circumstances | None = None,
) -> StepComparison:
    """The result of repeating the record, with some steps changed."""
    results: list[StepComparison] = []
    repeated = RepeatedSteps(
        record, cause="resume", on_result=results.append, circumstances=circumstances
    )
    for step, mark in record.items():
        repeated.compare(step, changed.get(step, mark))
    repeated.end()
    (result,) = results
    return result


def test_equal_steps_are_exact_with_their_counts():
    result = compared({})
    assert (result.verdict, result.exact, result.steps) == ("exact", True, 6)
    assert result.text == "exact over 6 repeated steps: ids 6, lr 6, loss 6, weights 3"


def test_what_the_record_lacks_is_not_counted():
    result = compared({}, record={1: StepMark(None, None, 2.0), 2: StepMark(None, 0.1, 2.0)})
    assert result.text == "exact over 2 repeated steps: lr 1, loss 2"


def test_nan_equals_nan():
    assert compared({}, record={1: StepMark(1, 0.1, math.nan)}).exact


@pytest.mark.parametrize(
    ("mark", "what"),
    [(StepMark(1, 0.1, 0.5), "batch ids"), (StepMark(14, 0.2, 0.5, 2), "lr")],
)
def test_other_ids_or_another_rate_have_moved(mark, what):
    result = compared({2: mark})
    assert (result.verdict, result.exact, result.step, result.what) == ("moved", False, 2, what)
    assert result.text.endswith("something that is in no state has moved")


def test_another_loss_with_other_weights_differs_at_its_first_step():
    result = compared({1: StepMark(7, 0.1, 1.156), 2: StepMark(14, 0.1, 0.5, 99)})
    assert (result.verdict, result.step, result.what) == ("differs", 1, "loss")
    assert "step 1 gave 1.156, the record says 1" in result.text


def test_other_weights_alone_differ():
    result = compared({2: StepMark(14, 0.1, 0.5, 99)})
    assert (result.verdict, result.what) == ("differs", "weights")


def test_another_loss_with_the_same_weights_is_only_another_number():
    result = compared({step: mark._replace(loss=9.0) for step, mark in RECORD.items()})
    assert (result.verdict, result.exact) == ("close", None)
    assert "only the logged number differs; a local variable?" in result.text


def test_another_loss_differs_if_no_weights_can_tell():
    record = {1: StepMark(7, 0.1, 1.0)}
    assert compared({1: StepMark(7, 0.1, 1.1)}, record=record).verdict == "differs"


def every(count: int, *, weights_after: int = 1) -> dict[int, StepMark]:
    """A record in which only every so many steps log a loss, and one step has weights."""
    return {
        step: StepMark(
            step * 7,
            0.1,
            1.0 / step if step % count == 0 else None,
            5 if step == weights_after else None,
        )
        for step in range(1, 7)
    }


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_mean_over_steps_that_starts_anew_is_no_alarm(count):
    record = every(count)
    result = compared({count: record[count]._replace(loss=9.0)}, record=record)
    assert (result.verdict, result.exact, result.step) == ("close", None, count)
    assert "; not every step logs a loss" in result.text
    assert "only the logged number differs" in result.text
    assert "or something that is in no state has moved" in result.text


def test_a_mean_over_steps_hides_no_weights_that_differ():
    record = every(2)
    first = {1: record[1]._replace(weights=6)}
    assert compared(first, record=record).verdict == "differs"
    later = every(2, weights_after=6)
    changed = {2: later[2]._replace(loss=9.0), 6: later[6]._replace(weights=6)}
    result = compared(changed, record=later)
    assert (result.verdict, result.step, result.what) == ("differs", 2, "loss")


def test_a_loss_that_each_step_has_differs_where_no_weights_can_tell():
    record = {step: mark._replace(loss=1.0) for step, mark in every(2).items()}
    assert compared({4: record[4]._replace(loss=1.1)}, record=record).verdict == "differs"
    # A step without a loss after the difference says nothing about it.
    record[6] = record[6]._replace(loss=None)
    assert compared({4: record[4]._replace(loss=1.1)}, record=record).verdict == "differs"


THREADS = Circumstances(explanations=["threads was 2, is 1"])


def test_a_small_difference_that_is_explained_is_close():
    result = compared({2: StepMark(14, 0.1, 0.5 * 1.0009, 99)}, circumstances=THREADS)
    assert (result.verdict, result.exact) == ("close", None)
    assert "threads was 2, is 1" in result.text


def test_a_large_difference_is_not_explained_by_threads():
    result = compared({2: StepMark(14, 0.1, 0.6, 99)}, circumstances=THREADS)
    assert result.verdict == "differs"


def test_other_ids_are_not_explained_by_threads():
    assert compared({2: StepMark(1, 0.1, 0.5, 2)}, circumstances=THREADS).verdict == "moved"


def test_ids_and_rate_are_compared_further_after_a_difference_that_is_explained():
    small = {2: StepMark(14, 0.1, 0.5 * 1.0009, 99)}
    other_rate = {**small, 4: StepMark(28, 0.2, 0.25, 4)}
    for later in ({**small, 4: StepMark(1, 0.1, 0.25, 4)}, other_rate):
        result = compared(later, circumstances=THREADS)
        assert (result.verdict, result.step) == ("moved", 4), result.text
    follows = replace(THREADS, rate_follows_loss=True)
    assert compared(other_rate, circumstances=follows).verdict == "close"


def test_a_large_loss_after_weights_that_a_rounding_explains_differs():
    other_weights = {2: StepMark(14, 0.1, 0.5, 99)}
    assert compared(other_weights, circumstances=THREADS).verdict == "close"
    result = compared({**other_weights, 3: StepMark(21, 0.1, 0.4)}, circumstances=THREADS)
    assert (result.verdict, result.step, result.what) == ("differs", 3, "loss")
    # Later the two trainings may part further: a rounding grows.
    grown = {**other_weights, 4: StepMark(28, 0.1, 0.9, 98)}
    assert compared(grown, circumstances=THREADS).verdict == "close"


EDITED = Circumstances(edits=["the script was edited since"])


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({2: StepMark(14, 0.2, 0.5, 2)}, "close"),
        ({2: StepMark(14, 0.1, 9.0, 99)}, "close"),
        ({2: StepMark(14, 0.1, 0.5, 99)}, "close"),
        ({2: StepMark(1, 0.1, 0.5, 2)}, "moved"),
        ({2: StepMark(14, 0.2, 0.5, 2), 4: StepMark(1, 0.2, 0.25, 4)}, "moved"),
        ({}, "exact"),
    ],
)
def test_an_edited_script_may_change_rate_and_loss_but_not_the_samples(changed, verdict):
    result = compared(changed, circumstances=EDITED)
    assert result.verdict == verdict
    assert "the script was edited since" in result.text


@pytest.mark.parametrize(
    "changed", [StepMark(14, 0.1, 9.0, 99), StepMark(14, 0.1, 0.5, 99), StepMark(14, 0.2, 0.5, 2)]
)
def test_another_command_line_does_not_hide_that_a_state_may_have_moved(changed):
    circumstances = Circumstances(edits=["the command line is another one"])
    result = compared({2: changed}, circumstances=circumstances)
    assert (result.verdict, result.exact) == ("close", None)
    assert result.text.endswith(
        "the command line is another one, or something that is in no state has moved"
    )


def test_equal_steps_without_a_record_are_only_repeatable():
    results: list[StepComparison] = []
    repeated = RepeatedSteps(
        {1: RECORD[1]}, cause="resume", on_result=results.append, is_recorded=False
    )
    repeated.compare(1, RECORD[1])
    (result,) = results
    assert (result.verdict, result.exact) == ("repeatable", None)


def test_a_snapshot_that_is_restored_without_a_repetition_proves_nothing():
    answer = RepeatedSteps({}, cause="back").answer(0)
    assert (answer["exact"], answer["first_difference"]) == (None, None)
    assert "nothing had to be repeated" in answer["text"]


def test_an_end_before_the_record_ends_counts_what_was_compared():
    repeated = RepeatedSteps(RECORD, cause="back")
    repeated.compare(1, RECORD[1])
    repeated.end()
    assert repeated.result is not None
    assert repeated.result.text == "exact over 1 repeated step: ids 1, lr 1, loss 1"
