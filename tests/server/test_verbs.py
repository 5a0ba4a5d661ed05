from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from midstep.control import CommandDefinition
from midstep.server.debug import command_routes
from midstep.server.debug.command_schemas import CommandOut, StateOut
from midstep.server.schema_base import Problem
from tests.served import serving


def test_verbs_answer_with_the_state_after_their_effect(served):
    state = served.ask("POST", f"{served.debug}/step", {"n": 3})
    assert state.status == 200
    StateOut.model_validate(state.json())
    assert (state.json()["step"], state.json()["parked"]) == (3, True)
    assert served.ask("POST", f"{served.debug}/run_until", {"step": 10}).json()["step"] == 10
    assert served.ask("POST", f"{served.debug}/resume", {}).json()["paused"] is False
    paused = served.ask("POST", f"{served.debug}/pause", {}).json()
    assert (paused["state"], paused["parked"]) == ("paused", True)
    assert served.ask("POST", f"{served.debug}/stop", {}).json()["state"] in ("stopped", "pausing")


def test_short_forms_mean_the_only_live_run(served):
    assert served.ask("POST", "/debug/step").json()["step"] == 1
    assert served.ask("GET", "/debug/state").json()["step"] == 1


def test_short_forms_are_refused_when_several_runs_are_live(served, tmp_path):
    with serving(tmp_path / "other", loop=None) as other:
        served.runs.add(other.run)
        answer = served.ask("POST", "/debug/step", {})
        assert answer.status == 409
        assert other.run.run_id in answer.json()["message"]
        assert served.ask("POST", f"{served.debug}/step", {}).json()["step"] == 1
        other.run.finish()
        assert served.ask("POST", "/debug/step", {}).json()["step"] == 2  # one is live again
        served.runs.remove(other.run.run_id)


def test_short_forms_are_unknown_when_no_run_is_live(served):
    served.runs.remove(served.run.run_id)
    assert served.ask("GET", "/debug/state").status == 404


def test_a_refused_verb_says_why_and_which_command(tmp_path):
    with serving(tmp_path, paused=False) as served:
        answer = served.ask("POST", "/debug/step", {"id": "my-step"})
        assert answer.status == 409
        problem = Problem.model_validate(answer.json())
        assert problem.command_id == "my-step"
        assert problem.error == "running"
        assert "pause it first" in problem.message


def test_an_effect_that_takes_long_is_answered_with_202_and_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(command_routes, "EFFECT_WAIT_S", 0.01)
    with serving(tmp_path, loop=None) as served:  # nobody ever reaches a boundary
        answer = served.ask("POST", "/debug/pause", {"id": "later"})
        assert answer.status == 202
        CommandOut.model_validate(answer.json())
        again = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/commands/later").json()
        assert (again["status"], again["command"]) == ("pending", "pause")


def test_a_repeated_id_is_answered_and_not_repeated(served):
    first = served.ask("POST", "/debug/step", {"n": 2, "id": "once"})
    again = served.ask("POST", "/debug/step", {"n": 2, "id": "once"})
    assert (first.status, again.status) == (200, 200)
    assert again.json()["step"] == 2


def test_who_asked_stands_in_the_log(served):
    for who in ("page", "cli", "python", "nobody"):
        served.ask("POST", "/debug/step", {}, headers={"X-Midstep-Who": who})
    log = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/commands").json()
    assert [line["who"] for line in log if line["command"] == "step"] == [
        "page",
        "cli",
        "python",
        "python",
    ]


def test_registered_commands_run_and_tell_their_result(served):
    served.controller.queue.register(
        CommandDefinition(name="count", help="Count."), lambda _: {"seen": 7}
    )
    address = f"/api/v1/runs/{served.run.run_id}/commands"
    answer = served.ask("POST", address, {"command": "count", "id": "c1"})
    assert (answer.status, answer.json()["result"]) == (200, {"seen": 7})
    assert served.ask("GET", f"{address}/c1").json()["status"] == "done"
    assert served.ask("POST", f"{address}/c1/cancel", {}).status == 409


def test_a_command_that_fails_is_told_as_failed(served):
    def broken(_):
        raise ValueError("no luck")

    served.controller.queue.register(CommandDefinition(name="bad", help="Fail."), broken)
    address = f"/api/v1/runs/{served.run.run_id}/commands"
    answer = served.ask("POST", address, {"command": "bad"})
    assert (answer.status, answer.json()["status"]) == (200, "failed")
    assert "no luck" in answer.json()["reason"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"command": "fly"}, "command"),
        ({"command": "step", "payload": {"m": 1}}, "payload"),
        ({"command": "step", "payload": {"n": "many"}}, "payload"),
        ({"command": "a b"}, "command"),
        ({"command": "step", "id": "no spaces"}, "id"),
    ],
)
def test_a_wrong_command_is_the_callers_mistake(served, body, field):
    answer = served.ask("POST", f"/api/v1/runs/{served.run.run_id}/commands", body)
    assert (answer.status, answer.json()["field"]) == (422, field)


def test_a_pending_command_can_be_cancelled(tmp_path, monkeypatch):
    monkeypatch.setattr(command_routes, "EFFECT_WAIT_S", 0.01)
    with serving(tmp_path, loop=None) as served:
        served.ask("POST", "/debug/pause", {"id": "later"})
        address = f"/api/v1/runs/{served.run.run_id}/commands/later/cancel"
        assert served.ask("POST", address, {}).json()["status"] == "refused"
        assert served.ask("POST", address, {}).status == 409


def test_many_clients_step_and_none_is_lost_or_doubled(served):
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: served.ask("POST", "/debug/step", {}), range(50)))
    assert {answer.status for answer in answers} == {200}
    assert served.controller.get_state()["step"] == 50


def test_finished_runs_refuse_verbs_and_still_answer_questions(served):
    served.ask("POST", "/debug/stop", {})
    served.run.finish()
    refused = served.ask("POST", "/debug/resume", {})
    assert (refused.status, refused.json()["error"]) == (409, "stopped")
    assert served.ask("GET", "/debug/state").json()["state"] == "stopped"
    (listed,) = served.ask("GET", "/api/v1/runs").json()["runs"]
    assert listed["live"] is False


def test_a_loop_without_a_boundary_is_shown_as_not_responding(served, monkeypatch):
    real = served.controller.get_state()
    stuck = {**real, "state": "running", "boundary_age_s": 11.0, "waiting_for": None}
    monkeypatch.setattr(served.controller, "get_state", lambda: dict(stuck))
    assert served.ask("GET", "/debug/state").json()["state"] == "not responding"
    served.controller.status.describe(phase="in validation, 40 of 79")
    assert served.ask("GET", "/debug/state").json()["state"] == "running"
    monkeypatch.undo()
