"""A run that is over opens with the same panels, from what it left on disk."""

from __future__ import annotations

import json

import pytest

from midstep.core.moments import Moment
from midstep.facts import FactsWriter
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.server.runs import stored_step
from midstep.session import Run
from tests.served import Served
from tests.server.test_stream import seqs_of, viewing


def served_over(root: RootServer, run) -> Served:
    port = int(root.base.rsplit(":", 1)[1])
    return Served(run, root.app.state.runs, root.tokens.now, root.app, root.base, port, root)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A short run of the competitive recipe, finished, behind a server over its folder."""
    from midstep.loops.bcl import BclTraining
    from midstep.loops.bcl_config import BclConfig

    folder = tmp_path_factory.mktemp("outputs")
    training = BclTraining(BclConfig(steps=12, health_every=5, batch_size=16, hidden=16))
    with training.open_run(name="bcl", save_dir=folder / "runs") as run:
        run.controller.watches.add_source("encoder.weight", lambda: training.model.encoder.weight)
        run.controller.add_watch(3, source="encoder.weight")
        run.controller.add_watch(5, source="encoder.weight")
        training.run_to_end(run)
    with RootServer(RootServerConfig(outputs=folder, port=0)) as root:
        yield served_over(root, run)


def test_its_state_is_that_of_its_end(finished):
    state = finished.ask("GET", f"{finished.debug}/state").json()
    assert (state["state"], state["step"], state["total_steps"]) == ("finished", 12, 12)
    assert state["loss"] > 0
    assert state["offers"] == []


def test_of_several_ended_runs_none_is_taken_for_the_live_one_and_none_is_opened(tmp_path):
    for name in ("a", "b"):
        with Run(name=name, save_dir=tmp_path / "runs") as run:
            pass
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        served = served_over(root, run)
        refused = served.ask("GET", "/debug/state")
        assert refused.status == 409
        assert refused.json()["message"].startswith("None of the 2 runs is live")
        assert not root.app.state.runs._opened


def test_the_table_of_features_is_that_of_the_last_examination(finished):
    keys = finished.ask("GET", f"{finished.debug}/step_data/keys").json()
    assert (keys["step"], keys["keys"]) == (12, ["features", "health", "layers"])
    entry = finished.ask("GET", f"{finished.debug}/step_data/features").json()
    assert entry["fits"] is True
    assert entry["panel"]["status"]["field"] == "win_rate"
    assert {len(column) for column in entry["data"].values()} == {16}
    events = finished.ask("GET", f"/api/v1/runs/{finished.run.run_id}/events").json()["events"]
    last = [each for each in events if each.get("kind") == "feature_health"][-1]
    assert entry["data"]["win_rate"] == last["features"]["win_rate"]


def test_similarities_are_those_of_the_last_checkpoint(finished):
    import torch

    from midstep.session.checkpoint.checkpoint_store import CheckpointStore

    answer = finished.ask("GET", f"{finished.debug}/cosine_matrix").json()
    weight = CheckpointStore(finished.run.dir).load().states["model"]["encoder.weight"]
    unit = torch.nn.functional.normalize(weight.double(), dim=1)
    wanted = unit @ unit.T
    assert answer["tensor"] == "encoder.weight"
    assert torch.allclose(torch.tensor(answer["matrix"], dtype=torch.float64), wanted, atol=1e-5)


def test_what_no_file_holds_is_refused_with_the_reason(finished):
    for source in ("grad_delta", "som_targets"):
        answer = finished.ask("GET", f"{finished.debug}/cosine_matrix?source={source}")
        assert answer.status == 409
        assert "Choose source=weights" in answer.json()["message"]
    by_metric = finished.ask("GET", f"{finished.debug}/cosine_matrix?order=metric:win_rate")
    assert by_metric.status == 200


def test_forces_have_the_magnitudes_that_were_recorded(finished):
    answer = finished.ask("GET", f"{finished.debug}/forces").json()
    entry = finished.ask("GET", f"{finished.debug}/step_data/features").json()["data"]
    assert answer["features"]["som_magnitude"] == pytest.approx(entry["som_magnitude"])
    assert answer["features"]["grad_magnitude"] == pytest.approx(entry["grad_magnitude"])
    assert "was not kept" in answer["note"]


def test_watched_rows_keep_their_lines(finished):
    answer = finished.ask("GET", f"{finished.debug}/trajectories").json()
    assert answer["source"] == "encoder.weight"
    assert list(answer["trajectories"]) == ["3", "5"]
    assert [point["step"] for point in answer["trajectories"]["3"]] == list(range(1, 13))
    assert len(answer["pairwise"]["3,5"]) == 12
    columns = finished.ask("GET", f"{finished.debug}/trajectories?format=safetensors")
    assert columns.status == 200


def test_its_series_and_its_stream_are_whole(finished):
    found = finished.ask("GET", f"/api/v1/runs/{finished.run.run_id}/scalars?names=loss").json()
    assert found["series"]["loss"]["step"] == list(range(1, 13))
    with viewing(finished, "0.1") as events:
        _, hello = next(events)
        assert hello["resumed"] is True
        last, seen = finished.runs.get(finished.run.run_id).seq, [1]
        while seen[-1] < last:
            identity, message = next(events)
            seen.extend(seqs_of(message) if identity is not None else [])
        assert seen == list(range(1, last + 1))


def test_nothing_can_be_changed_any_more(finished):
    debug = finished.debug
    writes = [
        (f"{debug}/pause", {}),
        (f"{debug}/step", {"n": 1}),
        (f"{debug}/back", {"n": 1}),
        (f"{debug}/watch", {"feature_ids": [1]}),
        (f"{debug}/trajectories/clear", {}),
        (f"{debug}/breakpoints", {"condition": {"kind": "every", "n": 3}}),
        (f"/api/v1/runs/{finished.run.run_id}/commands", {"command": "set_hparams", "payload": {}}),
    ]
    for path, body in writes:
        answer = finished.ask("POST", path, body)
        assert answer.status == 409, (path, answer.body)
        assert "has ended" in answer.json()["message"]


def test_a_damaged_checkpoint_is_refused_with_the_reason(finished):
    (path,) = finished.run.dir.glob("checkpoints/12/tensors.safetensors")
    whole = path.read_bytes()
    try:
        flipped = bytearray(whole)
        header = 8 + int.from_bytes(whole[:8], "little")
        for place in range(header, len(whole), 1000):
            flipped[place] ^= 1
        path.write_bytes(flipped)
        answer = finished.ask("GET", f"{finished.debug}/cosine_matrix")
        assert answer.status == 409
        assert "does not match its hash" in answer.json()["message"]
        path.write_bytes(whole[:100])
        assert finished.ask("GET", f"{finished.debug}/cosine_matrix").status == 409
    finally:
        path.write_bytes(whole)


def test_the_words_for_features_are_those_of_the_recipe():
    from midstep.models.competitive import feature_measures

    assert stored_step.DEAD_BELOW == feature_measures.DEAD_BELOW
    assert stored_step.WINNER_ABOVE == feature_measures.WINNER_ABOVE


def test_opening_a_run_without_weights_loads_no_torch(tmp_path):
    import subprocess
    import sys

    with Run(name="plain", save_dir=tmp_path / "runs") as run:
        run.log(loss=0.5)
        run.controller.wait_if_paused()
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from midstep.server.root_server import RootServer, RootServerConfig\n"
        f"root = RootServer(RootServerConfig(outputs=Path({str(tmp_path)!r}), port=0))\n"
        f"entry = root.app.state.runs.get({run.run_id!r})\n"
        "assert entry.state()['step'] == 1\n"
        "root.close()\n"
        "sys.exit('torch was loaded' if 'torch' in sys.modules else 0)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (made.returncode, made.stderr) == (0, "")


def odd_run(folder, **fields):
    """A run directory with whatever an old, foreign or broken program may have left."""
    with FactsWriter(folder) as facts:
        facts.event(Moment.START, name="odd", **fields)
        facts.log(3, loss=float("nan"))
        facts.event(Moment.STEP, kind="feature_health", step="x", features={"a": ["y"], "b": 3})
        facts.event(Moment.INTERVENTION, kind="command", id="c1", command="pause", status="done")
        facts.event(Moment.EXCEPTION, error="boom", step=3)
    return folder


def test_odd_facts_are_shown_as_far_as_they_go(tmp_path):
    folder = odd_run(tmp_path / "runs" / "odd", total_steps="many", config=[1, 2])
    (folder / "artifacts").mkdir()
    (folder / "artifacts" / "trajectories.json").write_text(
        json.dumps({"source": "w", "trajectories": {"1": [{"step": 1}, 7], "x": 3}, "others": None})
    )
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        (row,) = root.app.state.catalog.list(restoring_query()).rows
        served = served_over(root, None)
        base = f"/api/v1/runs/{row.id}"
        state = served.ask("GET", f"{base}/debug/state").json()
        assert (state["state"], state["step"], state["reason"]) == ("failed", 3, "boom")
        for rest in ("", "/scalars", "/events", "/debug/step_data/keys", "/debug/trajectories"):
            assert served.ask("GET", f"{base}{rest}").status == 200, rest
        assert served.ask("GET", f"{base}/debug/forces").status == 409
        assert served.ask("GET", f"{base}/debug/batch").status == 404


def restoring_query():
    from midstep.facts.index.run_query import RunQuery

    return RunQuery()


def test_a_live_run_without_a_socket_is_shown_as_it_stands_and_refuses_commands(tmp_path):
    with (
        Run(name="bare", save_dir=tmp_path / "runs", total_steps=9) as run,
        RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root,
    ):
        run.log(loss=0.25)
        run.controller.wait_if_paused()
        run.lease.reachable_at(socket=None)  # writes at once, as a heartbeat would
        served = served_over(root, run)
        state = served.ask("GET", f"{served.debug}/state").json()
        assert (state["state"], state["step"], state["total_steps"]) == ("running", 1, 9)
        refused = served.ask("POST", f"{served.debug}/pause", {})
        assert (refused.status, refused.json()["error"]) == (409, "out_of_reach")
        assert not run.controller.is_paused
        with viewing(served) as events:
            assert next(events)[1]["state"]["state"] == "running"
            run.log(loss=0.5)
            run.controller.wait_if_paused()
            told = next(m for _, m in events if m["type"] == "scalars")
            assert told["columns"]["loss"] == [0.5]


def test_runs_that_nobody_views_are_not_held_in_memory(tmp_path):
    from midstep.server.runs import run_table
    from midstep.server.stream import run_stream

    for number in range(run_table.MOST_OPEN + run_stream.MOST_IDLE + 2):
        with FactsWriter(tmp_path / f"run_{number}") as facts:
            facts.event(Moment.TRAIN_END, status="finished", step=number)
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as root:
        served = served_over(root, None)
        runs, streams = root.app.state.runs, root.app.state.run_streams
        for run in served.ask("GET", "/api/v1/runs").json()["runs"]:
            assert served.ask("GET", f"/api/v1/runs/{run['id']}/scalars").status == 200
            streams.stream(runs.get(run["id"]))
        assert len(runs._opened) == run_table.MOST_OPEN
        assert len(streams._streams) <= run_stream.MOST_IDLE
