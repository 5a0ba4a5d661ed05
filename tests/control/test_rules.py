"""Rules as conditions: settings, words, and judges on plain readings; no torch in here."""

from __future__ import annotations

import math
from typing import get_args

import pytest

from midstep.control import DebugController
from midstep.control.breakpoints.conditions import StepView
from midstep.control.breakpoints.layer_report import (
    ActivationReading,
    LayerReport,
    ParameterReading,
)
from midstep.control.breakpoints.rule import Rule
from midstep.control.breakpoints.rule_catalog import RULES
from midstep.core.errors import ConfigError
from midstep.server.debug.breakpoint_schemas import RuleName, RuleOut

EVERYTHING = frozenset({"gradients", "updates", "activations"})


def weight(name: str = "a", **changes: object) -> ParameterReading:
    usual = {
        "name": name,
        "elements": 100,
        "is_matrix": True,
        "weight_norm": 1.0,
        "grad_norm": 0.1,
        "update_norm": 1e-3,
    }
    return ParameterReading(**{**usual, **changes})  # type: ignore[arg-type]


def output(name: str = "act", **changes: object) -> ActivationReading:
    return ActivationReading(**{"name": name, "low": -1.0, "high": 1.0, **changes})  # type: ignore[arg-type]


def look(rule: Rule, step: int, *readings: ParameterReading | ActivationReading, **scalars: float):
    """What the rule says of one step."""
    report = LayerReport(
        measures=EVERYTHING,
        parameters=tuple(r for r in readings if isinstance(r, ParameterReading)),
        activations=tuple(r for r in readings if isinstance(r, ActivationReading)),
        cost_s=0.001,
    )
    return rule.check(StepView(step=step, scalars=scalars, layers=report if readings else None))


# -- the book -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RULES)
def test_every_rule_explains_itself_and_travels(name: str) -> None:
    told = RULES[name].describe()
    assert RuleOut.model_validate(told).rule == name
    assert told["words"]
    assert "{" not in told["words"]
    assert told["explanation"]["means"].endswith(".")
    assert len(told["explanation"]["causes"]) >= 2
    assert len(told["explanation"]["advice"]) >= 2


def test_the_wire_knows_every_rule() -> None:
    assert list(get_args(RuleName)) == list(RULES)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"rule": "no_such"}, "no rule 'no_such'"),
        ({"rule": "dead_relus", "low": 0.1}, "takes no low"),
        ({"rule": "loss_not_falling", "every": 3}, "takes no every"),
        ({"rule": "loss_not_falling", "layers": "encoder"}, "leave `layers` out"),
        ({"rule": "dead_relus", "limit": -1.0}, "limit"),
        ({"rule": "dead_relus", "limit": math.nan}, "limit"),
        ({"rule": "dead_relus", "limit": True}, "limit"),
        ({"rule": "dead_relus", "window": 0}, "window"),
        ({"rule": "dead_relus", "every": 2.5}, "every"),
        ({"rule": "overfitting", "metric": ""}, "metric"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_words(settings, says) -> None:
    with pytest.raises(ConfigError, match=says):
        Rule(**settings)


def test_what_is_left_out_is_the_default_and_stands_in_the_list() -> None:
    made = DebugController().breakpoints.add_rule("update_ratio", limit=0.5, layers="encoder")
    assert made.describe()["condition"] == {
        "kind": "rule",
        "rule": "update_ratio",
        "limit": 0.5,
        "low": 1e-7,
        "window": 3,
        "every": 10,
        "layers": "encoder",
        "metric": None,
    }
    assert made.words.endswith("in encoder")


# -- judges ---------------------------------------------------------------------------------------


def test_a_layer_is_found_after_so_many_times_in_a_row_and_again_only_after_recovery() -> None:
    rule = Rule(rule="dead_relus", window=2, every=1)
    fractions = [0.9, 0.1, 0.9, 0.9, 0.9, 0.1, 0.9, 0.9]
    hits = [
        step
        for step, fraction in enumerate(fractions, start=1)
        if look(rule, step, output(dead_fraction=fraction))
    ]
    assert hits == [4, 8]


def test_other_layers_are_named_beside_the_first() -> None:
    rule = Rule(rule="saturated_activations", window=1, every=1)
    found = look(rule, 1, *(output(f"act{i}", saturated_fraction=0.9) for i in range(8)))
    assert found is not None
    assert found.layer == "act0"
    assert "act1 (0.9)" in found.note
    assert found.note.endswith("and 2 more")


def test_only_chosen_layers_are_looked_at() -> None:
    rule = Rule(rule="dead_relus", window=1, every=1, layers="decoder")
    assert look(rule, 1, output("encoder.act", dead_fraction=1.0)) is None
    assert look(rule, 2, output("decoder.act", dead_fraction=1.0)).layer == "decoder.act"


def test_gradients_are_compared_by_their_mean_size_and_zero_is_another_matter() -> None:
    rule = Rule(rule="vanishing_gradients", window=1, every=1)
    large = weight("large", elements=10_000, grad_norm=1.0)  # 0.01 an element
    assert look(rule, 1, large, weight("small", elements=1, grad_norm=1e-5)) is None
    assert look(rule, 2, large, weight("zero", grad_norm=0.0)) is None
    assert look(rule, 3, large, weight("none", grad_norm=None)) is None
    assert look(rule, 4, large, weight("bias", is_matrix=False, grad_norm=1e-9)) is None
    found = look(rule, 5, large, weight("tiny", elements=1, grad_norm=1e-7))
    assert (found.layer, found.value) == ("tiny", pytest.approx(1e-5))


def test_a_gradient_explodes_beyond_its_weights_or_its_own_past() -> None:
    rule = Rule(rule="exploding_gradients")
    assert look(rule, 1, weight(grad_norm=999.0)) is None
    assert look(rule, 2, weight(grad_norm=1001.0)).value == pytest.approx(1001.0)
    rule = Rule(rule="exploding_gradients")
    for step in range(1, 8):
        assert look(rule, step, weight(grad_norm=0.01)) is None
    assert look(rule, 8, weight(grad_norm=0.9)) is None
    found = look(rule, 9, weight(grad_norm=2.0))
    assert (found.value, found.limit) == (pytest.approx(200.0), 100.0)
    assert look(rule, 10, weight(grad_norm=2.0)) is None


def test_weights_that_start_at_zero_explode_nothing() -> None:
    rule = Rule(rule="exploding_gradients")
    assert look(rule, 1, weight(weight_norm=0.0, grad_norm=1.0)) is None


def test_a_quiet_gradient_that_wakes_up_is_no_explosion() -> None:
    rule = Rule(rule="exploding_gradients")
    for step in range(1, 8):
        look(rule, step, weight(grad_norm=1e-9))
    assert look(rule, 8, weight(grad_norm=1e-3)) is None


def test_unchanged_weights_have_a_gradient_or_none_but_no_zero() -> None:
    def check(**changes: object):
        return look(Rule(rule="unchanged_weights", window=1, every=1), 1, weight(**changes))

    assert "has a gradient" in check(update_norm=0.0).note
    assert "has no gradient" in check(update_norm=0.0, grad_norm=None).note
    assert check(update_norm=0.0, grad_norm=0.0) is None
    assert check(update_norm=None) is None
    assert check() is None


def test_what_is_not_finite_is_named_in_the_order_in_which_it_spreads() -> None:
    bad = weight("late", grad_norm=math.nan)
    first = look(
        Rule(rule="nonfinite_layer"),
        1,
        output("x"),
        output("y", high=math.inf),
        output("z", low=math.nan),
        bad,
    )
    assert (first.layer, first.value) == ("y", math.inf)
    by_gradient = look(Rule(rule="nonfinite_layer"), 1, weight("early", grad_norm=math.nan), bad)
    assert by_gradient.layer == "late"
    by_weight = look(Rule(rule="nonfinite_layer"), 1, weight("w", weight_norm=math.inf))
    assert by_weight.layer == "w"


def test_what_goes_on_being_not_finite_is_found_once() -> None:
    rule = Rule(rule="nonfinite_layer")
    assert look(rule, 1, output("b", low=math.nan)) is not None
    assert look(rule, 2, output("a", low=math.nan), output("b", low=math.nan)) is None


def test_a_loss_that_falls_slowly_passes_and_one_that_stands_does_not() -> None:
    falling = Rule(rule="loss_not_falling", window=20)
    standing = Rule(rule="loss_not_falling", window=20)
    assert not any(look(falling, s, loss=0.999**s) for s in range(1, 200))
    hits = [s for s in range(1, 200) if look(standing, s, loss=1.0 + 0.01 * (-1) ** s)]
    assert hits == [20]


def test_a_loss_around_zero_or_not_finite_is_no_error() -> None:
    rule = Rule(rule="loss_not_falling", window=4)
    for step, loss in enumerate([0.0, math.nan, 0.0, math.inf, 0.0, 0.0], start=1):
        found = look(rule, step, loss=loss)
    assert found is not None


def test_overfitting_needs_a_falling_training_loss() -> None:
    def run(train_losses: list[float], validations: list[float]) -> list[int]:
        rule, hits, step = Rule(rule="overfitting"), [], 0
        for train, validation in zip(train_losses, validations, strict=True):
            for _ in range(3):
                step += 1
                look(rule, step, loss=train)
            step += 1
            if look(rule, step, loss=train, val_loss=validation):
                hits.append(step)
        return hits

    validations = [1.0, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3]
    assert run([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4], validations) == [20]
    assert run([1.0] * 7, validations) == []
    assert run([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [1 - 0.1 * i for i in range(7)]) == []


def test_a_rule_that_is_not_due_is_not_asked() -> None:
    rule = Rule(rule="dead_relus", every=10, window=1)
    assert look(rule, 9, output(dead_fraction=1.0)) is None
    assert look(rule, 10, output(dead_fraction=1.0)) is not None
    assert (rule.measures_at(9), rule.measures_at(10)) == (frozenset(), {"activations"})
    assert rule.cost_s == pytest.approx(0.0001)


# -- marks ----------------------------------------------------------------------------------------


class Ledger:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def log_values(self, step: int, values: object) -> None:
        """Not looked at."""

    def event(self, moment: object, **fields: object) -> None:
        self.events.append(fields)


def steps(controller: DebugController, losses: list[float]) -> None:
    for index, loss in enumerate(losses):
        controller.capture_batch(None, loss, index)
        assert controller.wait_if_paused()


def test_a_mark_leaves_a_record_when_it_begins_to_hold_and_does_not_stop() -> None:
    controller, ledger = DebugController(), Ledger()
    controller.sinks.add(ledger)
    made = controller.add_breakpoint("expression", expression="loss > 2", action="mark")
    steps(controller, [1.0, 3.0, 3.0, 1.0, 3.0])
    marks = [event for event in ledger.events if event["kind"] == "mark"]
    assert [mark["step"] for mark in marks] == [2, 5]
    assert (made.hits, made.hit_steps) == (3, [2, 3, 5])
    assert marks[0]["explanation"] is None
    assert not controller.is_paused


def test_a_breakpoint_that_only_marks_wants_no_step_data() -> None:
    controller = DebugController()
    made = controller.add_breakpoint("expression", expression="loss > 2", action="mark")
    assert not controller.captures.wants_data
    controller.breakpoints.set_action(made.id, "pause")
    assert controller.captures.wants_data
    with pytest.raises(ConfigError, match="pause or mark"):
        controller.breakpoints.set_action(made.id, "shout")  # type: ignore[arg-type]


def test_a_pausing_rule_wants_step_data_only_when_it_is_due() -> None:
    controller = DebugController()
    controller.breakpoints.add_rule("dead_relus", every=3)
    wanted = []
    for index in range(6):
        wanted.append(controller.captures.wants_data)
        controller.capture_batch(None, 1.0, index)
        controller.wait_if_paused()
    assert wanted == [False, False, True, False, False, True]
