from __future__ import annotations

import pytest

from midstep.control.breakpoints.rule_catalog import RULES
from midstep.server.debug.breakpoint_schemas import BreakpointOut, Evidence, RuleOut
from midstep.server.debug.command_schemas import StateOut


def test_the_book_of_rules_is_listed_with_its_words(served):
    found = served.ask("GET", "/debug/rules").json()
    assert [RuleOut.model_validate(each).rule for each in found] == list(RULES)
    assert found[0]["explanation"]["title"] == "Vanishing gradients"


def test_a_rule_is_added_with_its_defaults_and_switched_to_marking(served):
    condition = {"kind": "rule", "rule": "dead_relus", "limit": 0.25}
    made = served.ask("POST", "/debug/breakpoints", {"condition": condition})
    assert made.status == 201
    out = BreakpointOut.model_validate(made.json())
    assert out.condition.model_dump() == {
        "kind": "rule",
        "rule": "dead_relus",
        "limit": 0.25,
        "low": None,
        "window": 2,
        "every": 10,
        "layers": None,
        "metric": None,
    }
    address = f"/debug/breakpoints/{out.id}"
    assert served.ask("PATCH", address, {"action": "mark"}).json()["action"] == "mark"
    assert served.ask("PATCH", address, {"enabled": False}).json()["action"] == "mark"


@pytest.mark.parametrize(
    "body",
    [
        {"condition": {"kind": "rule", "rule": "no_such"}},
        {"condition": {"kind": "rule", "rule": "dead_relus", "low": 0.1}},
        {"condition": {"kind": "rule", "rule": "dead_relus", "limit": -1}},
        {"condition": {"kind": "rule", "rule": "dead_relus", "window": 0}},
        {"condition": {"kind": "rule"}},
        {"condition": {"kind": "every", "n": 3}, "action": "shout"},
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_words(served, body):
    answer = served.ask("POST", "/debug/breakpoints", body)
    assert answer.status == 422
    assert answer.json()["message"]
    assert served.ask("GET", "/debug/breakpoints").json() == []


def test_a_rule_stops_the_run_with_its_explanation(served):
    condition = {"kind": "rule", "rule": "loss_not_falling", "window": 4, "limit": 0.9}
    served.ask("POST", "/debug/breakpoints", {"condition": condition})
    served.ask("POST", "/debug/run_until", {"step": 100})
    state = StateOut.model_validate(served.ask("GET", "/debug/state").json())
    assert state.step == 4
    evidence = state.breakpoint
    assert isinstance(evidence, Evidence)
    assert (evidence.rule, evidence.action, evidence.limit) == ("loss_not_falling", "pause", 0.9)
    assert "learning rate" in " ".join(evidence.explanation.causes)


def test_a_mark_is_an_event_of_the_run_that_goes_on(served):
    condition = {"kind": "metric", "name": "loss", "op": "<", "value": 0.3}
    served.ask("POST", "/debug/breakpoints", {"condition": condition, "action": "mark"})
    served.ask("POST", "/debug/run_until", {"step": 9})
    assert served.ask("GET", "/debug/state").json()["step"] == 9
    events = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/events").json()["events"]
    marks = [event for event in events if event.get("kind") == "mark"]
    assert [(mark["step"], mark["limit"]) for mark in marks] == [(4, 0.3)]
    listed = served.ask("GET", "/debug/breakpoints").json()[0]
    assert (listed["action"], listed["hits"]) == ("mark", 6)
