"""Every read route answers for a live run, and for the same run once it has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from midstep.control import Command
from midstep.server.app import create_app
from midstep.server.auth.guard import GuardConfig
from midstep.server.auth.tokens import Tokens
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.server.runs.run_table import RunTable
from midstep.server.transport.server_thread import ServerThread
from tests.served import PATIENCE_S, Answer, Served

STEPS = 8
PARKED_AT = 5
RUN = "/api/v1/runs/{run_id}"
ASKED = "p1"
"""Id of a command that ended before the first request."""
QUERIES = {
    f"{RUN}/debug/together": "?ask=state&ask=watch",
    f"{RUN}/debug/step_data/force_detail": "?feature=1",
    f"{RUN}/debug/batch/sample": "?index=0",
}
REFUSED = {("ended", f"{RUN}/debug/batch/sample"): (404, "no_sample")}
"""This loop hands out no whole batch at its end, only what a page would have shown of it."""


def read_routes() -> dict[str, APIRoute]:
    """Every route that reads one run, by its path."""
    app = create_app(RunTable(), guard=GuardConfig(tokens=Tokens.fresh()))
    return {
        route.path: route
        for route in app.routes
        if isinstance(route, APIRoute) and route.path.startswith(RUN) and "GET" in route.methods
    }


ROUTES = read_routes()


def ask_all(served: Served) -> dict[str, Answer]:
    """The answer of every read route, by its path."""
    files = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/files").json()["files"]
    events = next(each["id"] for each in files if each["path"].endswith("events.jsonl"))
    key = served.ask("GET", f"{served.debug}/step_data/keys").json()["keys"][0]
    names = {
        "run_id": served.run.run_id,
        "command_id": ASKED,
        "file_id": events,
        "key": key,
        "number": "0",
    }
    groups = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/media").json()["groups"]
    group_ids = {group["key"]: group["id"] for group in groups}
    answers = {}
    for path in ROUTES:
        group = group_ids["picture" if path.endswith("/picture") else "note"]
        filled = path.replace("{key:path}", "{key}").format(**names, group_id=group)
        answers[path] = served.ask("GET", filled + QUERIES.get(path, ""))
    return answers


def ask_live(run) -> dict[str, Answer]:
    """The answers of a server in the process of the run."""
    runs, tokens = RunTable(), Tokens.fresh()
    runs.add(run)
    app = create_app(runs, guard=GuardConfig(tokens=tokens))
    thread = ServerThread(app)
    url = thread.start()
    try:
        return ask_all(Served(run, runs, tokens, app, url, int(url.rsplit(":", 1)[1]), thread))
    finally:
        thread.close()


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, dict[str, Answer]]:
    """All answers about a run, while it is parked and after it has ended."""
    from midstep.loops.bcl import BclConfig, BclTraining

    folder = tmp_path_factory.mktemp("outputs")
    training = BclTraining(BclConfig(steps=STEPS, health_every=5, batch_size=16, hidden=16))
    with training.open_run(name="bcl", save_dir=folder / "runs") as run:
        controller = run.controller
        controller.watches.add_source("encoder.weight", lambda: training.model.encoder.weight)
        controller.add_watch(3, source="encoder.weight")
        worker = threading.Thread(target=training.run_to_end, args=(run,), name="training")
        run.log(note="before the first step", picture=torch.rand(8, 8))
        parked = controller.submit(Command(name="pause", id=ASKED))
        worker.start()
        try:
            parked.result(PATIENCE_S)
            controller.submit(Command(name="step", payload={"n": PARKED_AT})).result(PATIENCE_S)
            live = ask_live(run)
        finally:
            controller.resume()
            worker.join(PATIENCE_S)
    with RootServer(RootServerConfig(outputs=folder, port=0)) as root:
        port = int(root.base.rsplit(":", 1)[1])
        ended = ask_all(
            Served(run, root.app.state.runs, root.tokens.now, root.app, root.base, port, root)
        )
    return {"live": live, "ended": ended}


@pytest.mark.parametrize("phase", ["live", "ended"])
@pytest.mark.parametrize("path", ROUTES)
def test_a_read_route_answers_as_documented(answers, path, phase):
    answer = answers[phase][path]
    status, error = REFUSED.get((phase, path), (200, None))
    assert answer.status == status, answer.body
    if error is not None:
        assert answer.json()["error"] == error
    elif answer.headers["content-type"].startswith("application/json"):
        assert ROUTES[path].response_model is not None
        TypeAdapter(ROUTES[path].response_model).validate_json(answer.body)


def body(answers, phase: str, path: str) -> Any:
    return answers[phase][RUN + path].json()


def test_the_state_has_the_same_fields_in_both(answers):
    live, ended = (body(answers, phase, "/debug/state") for phase in ("live", "ended"))
    assert list(live) == list(ended)
    assert (live["state"], live["step"], live["parked"]) == ("paused", PARKED_AT, True)
    assert (ended["state"], ended["step"], ended["parked"]) == ("finished", STEPS, False)


def test_what_was_recorded_while_live_is_still_there_once_ended(answers):
    live, ended = (body(answers, phase, "/scalars")["series"] for phase in ("live", "ended"))
    assert live["loss"]["low"] == ended["loss"]["low"][:PARKED_AT]
    live, ended = (body(answers, phase, "/events")["events"] for phase in ("live", "ended"))
    assert live == ended[: len(live)]
    live, ended = (body(answers, phase, "/debug/trajectories") for phase in ("live", "ended"))
    assert live["trajectories"]["3"] == ended["trajectories"]["3"][:PARKED_AT]
    live, ended = (body(answers, phase, "/commands/{command_id}") for phase in ("live", "ended"))
    # A fact holds neither the result of a command nor when it was submitted.
    changed = {name for name in live if live[name] != ended[name]}
    assert changed <= {"result", "submitted_at"}
    assert body(answers, "live", "")["header"] == body(answers, "ended", "")["header"]


def test_only_the_live_run_takes_commands(answers):
    assert "back" not in body(answers, "ended", "/debug/state")["offers"]
    assert body(answers, "ended", "/debug/state")["offers"] == []
    assert {"pause", "step"} <= set(body(answers, "live", "/debug/state")["offers"])
