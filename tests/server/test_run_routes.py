from __future__ import annotations

import base64
import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_arrays
from safetensors.torch import load

from midstep.control import CapturedBatch, StepData
from midstep.facts.format import scanners
from midstep.facts.format.scanners import EventsScanner
from midstep.facts.read.reader import MARK_EVERY_BYTES
from midstep.server.debug.breakpoint_schemas import BreakpointOut, TrajectoriesOut, WatchOut
from midstep.server.runs.run_schemas import EventsOut, RunDetail, RunList, ScalarsOut
from midstep.server.step_views.step_schemas import BatchOut, StepDataKeys, StepDataOut


def of_run(served, rest):
    return f"/api/v1/runs/{served.run.run_id}/{rest}"


def test_no_batch_is_said_with_what_to_do(served):
    answer = served.ask("GET", "/debug/batch")
    assert (answer.status, answer.json()["error"]) == (404, "no_batch")


def test_each_step_shows_its_own_batch(served):
    pictures = set()
    for step in range(5):
        served.ask("POST", "/debug/step", {})
        batch = served.ask("GET", "/debug/batch?inline=1").json()
        BatchOut.model_validate(batch)
        assert batch["step"] == step
        assert batch["sample_ids"] == [4 * step + i for i in range(4)]
        assert base64.b64decode(batch["png"]).startswith(b"\x89PNG")
        pictures.add(batch["png"])
    assert len(pictures) == 5


def test_batch_travels_as_safetensors(served):
    served.ask("POST", "/debug/step", {"n": 3})
    answer = served.ask("GET", "/debug/batch?format=safetensors")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert torch.equal(load(answer.body)["batch"], torch.full((4, 64), 0.2))


def test_masks_are_layers_of_the_picture_and_a_text_has_neither(served):
    served.ask("POST", "/debug/step", {})
    masks = torch.arange(2).reshape(2, 1, 1).expand(2, 8, 8)
    whole = CapturedBatch(step=0, batch=(torch.rand(2, 3, 8, 8), masks), loss=0.5, etag="1.0.x")
    served.controller.captures.recent = (whole,)
    for path in ("picture?", "sample?index=1&format=png&"):
        answer = served.ask("GET", f"/debug/batch/{path}layer=mask")
        assert (answer.status, answer.body[:4]) == (200, b"\x89PNG")
        assert served.ask("GET", f"/debug/batch/{path}layer=prediction").status == 404
        assert served.ask("GET", f"/debug/batch/{path}layer=pickle").status == 422
    text = CapturedBatch(step=0, batch=["one", "two"], loss=0.5, etag="2.0.x")
    served.controller.captures.recent = (text,)
    assert served.ask("GET", "/debug/batch/sample?index=1").json()["text"] == "two"
    for path in ("picture?", "sample?index=1&format=png&"):
        assert served.ask("GET", f"/debug/batch/{path}layer=mask").json()["error"] == "no_picture"
    assert served.ask("GET", "/debug/batch/sample?index=1&format=safetensors").status == 422
    # The parts of a sample come from one capture.
    assert served.ask("GET", "/debug/batch/sample?index=1&etag=2.0.x").status == 200
    assert served.ask("GET", "/debug/batch/sample?index=1&etag=1.0.x").status == 409


def test_step_data_is_listed_and_given(served):
    served.ask("POST", "/debug/step", {"n": 2})
    keys = served.ask("GET", "/debug/step_data/keys").json()
    assert StepDataKeys.model_validate(keys).keys == ["ids"]
    entry = served.ask("GET", "/debug/step_data/ids").json()
    StepDataOut.model_validate(entry)
    assert (entry["step"], entry["data"]) == (2, [1])
    assert served.ask("GET", "/debug/step_data/none").status == 404
    assert served.ask("GET", "/debug/step_data/ids?format=safetensors").status == 422
    assert served.ask("GET", "/debug/step_data/ids?format=pickle").status == 422


def test_a_key_with_a_slash_in_its_name_is_found(served):
    push(served, "encoder/grad norm", torch.ones(2))
    assert served.ask("GET", "/debug/step_data/encoder%2Fgrad%20norm").json()["data"] == [1.0, 1.0]
    assert served.ask("GET", f"{served.debug}/step_data/encoder/grad%20norm").status == 200


def test_slices_and_transposed_arrays_travel_as_the_numbers_they_show(served):
    table = np.arange(12.0).reshape(3, 4)
    push(served, "odd", {"slice": table[::2, ::2], "turned": table.T, "one": np.array(5.0)})
    found = load_arrays(served.ask("GET", "/debug/step_data/odd?format=safetensors").body)
    assert found["odd.slice"].tolist() == table[::2, ::2].tolist()
    assert found["odd.turned"].tolist() == table.T.tolist()
    assert found["odd.one"].tolist() == 5.0


@pytest.mark.parametrize(
    "batch",
    [
        torch.eye(3).to_sparse(),
        torch.ones(2, 2, device="meta"),
        np.ones((2, 2), np.longdouble),
        np.array([[object()]]),
        np.ones((2, 2), complex),
    ],
    ids=["sparse", "meta", "longdouble", "objects", "complex"],
)
def test_a_batch_that_safetensors_cannot_hold_is_refused_in_words(served, batch):
    served.controller._state.captures.recent = (CapturedBatch(step=0, batch=batch, loss=None),)
    answer = served.ask("GET", "/debug/batch?format=safetensors")
    assert (answer.status, answer.json()["error"]) == (422, "no_tensor")
    assert served.ask("GET", "/debug/batch").status == 200


def push(served, key, data):
    """Let the loop stand at a step whose data is this."""
    served.controller._state.captures.data.published = StepData(step=1, values={key: data})


def test_breakpoints_are_added_switched_and_removed(served):
    condition = {"kind": "metric", "name": "loss", "op": "<", "value": 0.3}
    made = served.ask("POST", "/debug/breakpoints", {"condition": condition})
    assert made.status == 201
    BreakpointOut.model_validate(made.json())
    address = f"/debug/breakpoints/{made.json()['id']}"
    assert served.ask("PATCH", address, {"enabled": False}).json()["enabled"] is False
    assert served.ask("PATCH", address, {"enabled": True}).json()["enabled"] is True
    served.ask("POST", "/debug/run_until", {"step": 1000})
    state = served.ask("GET", "/debug/state").json()
    assert state["step"] == 4
    assert state["breakpoint"]["limit"] == 0.3
    assert served.ask("GET", "/debug/breakpoints").json()[0]["hits"] == 1
    assert served.ask("DELETE", address).status == 204
    assert served.ask("DELETE", address).status == 404
    assert served.ask("PATCH", address, {"enabled": True}).status == 404
    assert served.ask("GET", "/debug/breakpoints").json() == []


@pytest.mark.parametrize(
    "condition",
    [
        {"kind": "step", "step": 5},
        {"kind": "every", "n": 3},
        {"kind": "loss_nonfinite"},
        {"kind": "loss_z"},
        {"kind": "grad_norm", "limit": 1},
        {"kind": "sample", "ids": [1, 2]},
        {"kind": "expression", "expression": "loss > 2 and step > 3"},
    ],
    ids=lambda condition: condition["kind"],
)
def test_every_kind_of_condition_comes_back_as_it_went(served, condition):
    made = served.ask("POST", "/debug/breakpoints", {"condition": condition, "enabled": False})
    assert made.status == 201, made.body
    assert condition.items() <= made.json()["condition"].items()
    BreakpointOut.model_validate(made.json())
    assert made.json()["enabled"] is False


def test_watches_follow_rows_and_pairs(served):
    weights = torch.eye(4)
    served.controller.watches.add_source("weights", lambda: weights)
    wanted = {"feature_ids": [0, 2], "source": "weights"}
    watch = served.ask("POST", "/debug/watch", wanted).json()
    WatchOut.model_validate(watch)
    rows = {"source": "weights", "feature_ids": [0, 2], "others": {}}
    assert watch == {**rows, "sources": ["weights"]}
    assert served.ask("GET", "/debug/watch").json() == watch
    served.ask("POST", "/debug/step", {"n": 3})
    found = served.ask("GET", "/debug/trajectories").json()
    TrajectoriesOut.model_validate(found)
    assert [point["step"] for point in found["trajectories"]["2"]][-3:] == [1, 2, 3]
    assert found["pairwise"]["0,2"][-1]["cos"] == 0.0
    cleared = served.ask("POST", "/debug/trajectories/clear", {}).json()
    assert all(not points for points in cleared["trajectories"].values())
    assert served.ask("POST", "/debug/watch", {"feature_ids": [1], "source": "no"}).status == 422
    too_many = {"feature_ids": list(range(65)), "source": "weights"}
    assert served.ask("POST", "/debug/watch", too_many).status == 422


def test_trajectories_of_several_sources_travel_thinned_and_as_columns(served):
    weights = torch.eye(4)
    for name in ("weights", "a/b.c"):
        served.controller.watches.add_source(name, lambda: weights)
        served.ask("POST", "/debug/watch", {"feature_ids": [2, 0], "source": name})
    watch = served.ask("GET", "/debug/watch").json()
    assert (watch["source"], watch["others"]) == ("a/b.c", {"weights": [2, 0]})
    served.ask("POST", "/debug/step", {"n": 20})
    found = served.ask("GET", "/debug/trajectories?points=5").json()
    TrajectoriesOut.model_validate(found)
    assert not found["exact"]
    for held in (found, found["others"]["weights"]):
        for points in [*held["trajectories"].values(), *held["pairwise"].values()]:
            assert len(points) <= 5
            assert (points[0]["step"], points[-1]["step"]) == (1, 20)
    answer = served.ask("GET", "/debug/trajectories?format=safetensors").body
    tensors, header_bytes = load_arrays(answer), int.from_bytes(answer[:8], "little")
    metadata = json.loads(answer[8 : 8 + header_bytes])["__metadata__"]
    assert json.loads(metadata["sources"]) == ["a/b.c", "weights"]
    assert metadata["exact"] == "true"
    assert tensors["1/2.step"].tolist() == list(range(1, 21))
    assert tensors["0/0.weight_cos_to_init"].tolist() == [1.0] * 20
    assert tensors["0/0,2.cos"].tolist() == [0.0] * 20
    served.ask("POST", "/debug/watch", {"feature_ids": []})
    served.ask("POST", "/debug/trajectories/clear", {})
    assert served.ask("GET", "/debug/trajectories?format=safetensors").status == 200
    assert served.ask("GET", "/debug/trajectories?points=1").status == 422


def test_runs_are_listed_and_described(served):
    served.ask("POST", "/debug/step", {"n": 2})
    listed = served.ask("GET", "/api/v1/runs").json()
    RunList.model_validate(listed)
    (run,) = listed["runs"]
    assert (run["id"], run["step"], run["live"]) == (served.run.run_id, 2, True)
    assert run["scalars"] == ["loss"]
    assert "/" not in run["directory"]
    detail = served.ask("GET", f"/api/v1/runs/{served.run.run_id}").json()
    RunDetail.model_validate(detail)
    assert detail["header"]["moment"] == "on_start"
    assert {"pause", "step"} <= set(detail["commands"])


def test_scalars_are_exact_until_there_are_too_many(served):
    served.ask("POST", "/debug/step", {"n": 100})
    exact = served.ask("GET", of_run(served, "scalars?names=loss,none")).json()
    ScalarsOut.model_validate(exact)
    assert list(exact["series"]) == ["loss"]
    series = exact["series"]["loss"]
    assert (series["exact"], series["count"]) == (True, 100)
    assert series["low"] == series["high"] == [1.0 / step for step in series["step"]]
    thin = served.ask("GET", of_run(served, "scalars?points=10")).json()["series"]["loss"]
    assert (thin["exact"], thin["count"], len(thin["step"])) == (False, 100, 10)
    part = served.ask("GET", of_run(served, "scalars?start=10&stop=20")).json()["series"]["loss"]
    assert part["step"] == list(range(10, 20))


def test_scalars_of_a_timeline_that_was_left_are_read_by_its_number(served):
    facts = served.run.facts
    for step in range(1, 13):
        facts.log(step, loss=float(step))
    facts.timeline = 1
    facts.event("on_intervention", kind="rewind", who="page", step=6, from_step=12, parent=0)
    facts.log(7, loss=70.0)

    def loss(query):
        return served.ask("GET", of_run(served, f"scalars?names=loss&{query}"))

    assert loss("timeline=1").json()["series"] == loss("").json()["series"]
    assert loss("").json()["series"]["loss"]["low"][-2:] == [6.0, 70.0]
    left = loss("timeline=0&start=7").json()["series"]["loss"]
    assert (left["step"], left["low"]) == (list(range(7, 13)), [float(n) for n in range(7, 13)])
    unknown = loss("timeline=2")
    assert unknown.status == 422
    assert "no timeline 2 in this run; it has 0 to 1" in unknown.body.decode()


def test_scalars_travel_as_safetensors(served):
    served.ask("POST", "/debug/step", {"n": 10})
    served.run.facts.log(11, loss=float("nan"))
    answer = served.ask("GET", of_run(served, "scalars?format=safetensors"))
    tensors = load_arrays(answer.body)
    assert set(tensors) == {"loss.step", "loss.low", "loss.high"}
    assert tensors["loss.step"].dtype == "int64"
    assert tensors["loss.step"].tolist() == list(range(1, 12))
    assert b'"loss.count":"11"' in answer.body
    text = served.ask("GET", of_run(served, "scalars")).json()
    assert text["series"]["loss"]["low"][-1] == "NaN"


def test_events_are_given_behind_a_number(served):
    served.ask("POST", "/debug/step", {"n": 1})
    first = served.ask("GET", of_run(served, "events?limit=1")).json()
    EventsOut.model_validate(first)
    assert (first["events"][0]["moment"], first["more"]) == ("on_start", True)
    rest = served.ask("GET", of_run(served, f"events?after_seq={first['seq']}")).json()
    assert rest["more"] is False
    assert all(event["seq"] > first["seq"] for event in rest["events"])


def test_a_bad_query_names_its_field(served):
    answer = served.ask("GET", of_run(served, "scalars?points=many"))
    assert (answer.status, answer.json()["field"]) == (422, "points")


def test_who_only_looks_is_not_told_command_line_and_folder(served):
    private = {"argv", "cwd"}
    for path, header_of in (
        (f"/api/v1/runs/{served.run.run_id}", lambda answer: answer["header"]),
        (of_run(served, "events"), lambda answer: answer["events"][0]),
    ):
        told = header_of(served.ask("GET", path).json())
        seen = header_of(served.ask("GET", path, token="viewer").json())
        assert told.keys() - seen.keys() == private
        assert seen == {name: told[name] for name in seen}


def test_pages_of_events_read_on_from_where_the_last_one_ended(served, monkeypatch):
    for number in range(2000):
        served.run.event("on_step", number=number, text="x" * 100)
    read: list[int] = []
    scan = EventsScanner._lines

    def counted(self, buffer):
        read.append(len(buffer))
        return scan(self, buffer)

    assert len(served.ask("GET", of_run(served, "events?limit=10000")).json()["events"]) > 2000
    monkeypatch.setattr(EventsScanner, "_lines", counted)
    monkeypatch.setattr(scanners, "CHUNK_BYTES", 1 << 14)
    last = served.run.facts.seq
    page = served.ask("GET", of_run(served, f"events?after_seq={last - 3}")).json()
    assert [event["seq"] for event in page["events"]] == [last - 2, last - 1, last]
    assert sum(read) < 2 * MARK_EVERY_BYTES
