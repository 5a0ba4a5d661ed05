"""Recipes over HTTP: listed with typed settings, started, ended by signal, refused with reasons."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.facts.liveness.run_lock import lock_holder
from midstep.loops.config.loop_settings import MlpSettings
from midstep.loops.config.recorded_config import read_recorded
from midstep.server.recipes.end_process import end_process
from midstep.server.root_server import RootServer, RootServerConfig
from tests.served import Served

WAIT_S = 180.0


@pytest.fixture
def root_server(tmp_path: Path) -> Iterator[RootServer]:
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as server:
        yield server
        for run_dir in (tmp_path / "runs").glob("run_*"):
            if lock_holder(run_dir) is not None:
                end_process(run_dir, "kill")
                _free(run_dir)


def _free(run_dir: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while lock_holder(run_dir) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert lock_holder(run_dir) is None


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_a_started_run_is_stepped_through_the_server_and_killed(
    root_server: RootServer, tmp_path: Path
) -> None:
    client = Client(root_server.url)
    row = client.recipes.start("demo", name="try", paused=True, steps=1_000_000, seed=3)
    assert (row["name"], row["recipe"], row["live"]) == ("try", "demo", True)
    assert row["config"]["seed"] == 3
    client.run = row["id"]
    client.step(2)
    _wait_until(lambda: client.state()["step"] == 2)
    assert client.end("kill") == {"id": row["id"], "how": "kill"}
    _free(tmp_path / row["directory"])
    _wait_until(lambda: client.runs.list()[0]["state"] == "killed")  # lists may share one look
    with pytest.raises(ClientError, match="no process runs it any more") as refused:
        client.end("kill")
    assert refused.value.status == 409


def test_a_composed_loop_starts_with_nested_settings_and_finishes(
    root_server: RootServer, tmp_path: Path
) -> None:
    settings = {"loop.hidden_dims": [8], "phase1.trainer.epochs": 1, "data.batch_size": 256}
    client = Client(root_server.url)
    row = client.recipes.start("mlp", name="tiny", **settings, logging="plots_minimal")
    run_dir = tmp_path / row["directory"]
    _wait_until(lambda: client.runs.list()[0]["state"] == "finished")
    assert (row["recipe"], client.runs.list()[0]["step"]) == ("mlp", 5)
    _free(run_dir)  # the last figures are drawn after the end is recorded
    recorded = read_recorded(run_dir)
    assert recorded.config.loop == MlpSettings(hidden_dims=(8,))
    assert recorded.choices["logging"] == "plots_minimal"
    assert "phase1.trainer.epochs=1" in recorded.overrides
    assert (run_dir / "figures" / "losses-on_train_end-e000.png").is_file()


def test_one_id_starts_one_run(root_server: RootServer) -> None:
    asked = {"recipe": "demo", "settings": {"steps": 1_000_000}, "paused": True, "id": "once"}
    transport = Client(root_server.url).transport
    first = transport.request("POST", "/api/v1/runs", body=asked)
    assert transport.request("POST", "/api/v1/runs", body=asked)["id"] == first["id"]
    assert len(Client(root_server.url).runs.list()) == 1


@pytest.mark.parametrize(
    ("recipe", "settings", "said"),
    [
        ("demo", {"steps": -1}, "steps must be at least 1"),
        ("demo", {"lr": 0.0}, "lr must be above 0"),
        ("demo", {"path": "/etc"}, "path is not a setting"),
        ("sh", {}, "no recipe 'sh'"),
    ],
)
def test_what_a_recipe_does_not_take_is_422_and_leaves_nothing(
    root_server: RootServer, tmp_path: Path, recipe: str, settings: dict[str, float], said: str
) -> None:
    with pytest.raises(ClientError, match=said) as refused:
        Client(root_server.url).recipes.start(recipe, **settings)
    assert refused.value.status == 422
    assert list((tmp_path).glob("runs/*")) == []


def test_a_form_is_offered_with_kinds_defaults_and_words(root_server: RootServer) -> None:
    (demo,) = [each for each in Client(root_server.url).recipes.list() if each["name"] == "demo"]
    condition = demo["settings"][0]
    assert (condition["kind"], condition["default"]) == ("choice", "novelty")
    assert "rescue" in condition["choices"]
    assert all(each["about"] for each in demo["settings"])


def test_a_viewer_sees_recipes_and_may_not_start_one(root_server: RootServer) -> None:
    viewer = Client(root_server.viewer_url)
    answer = viewer.transport.request("GET", "/api/v1/recipes")
    assert (answer["can_start"], bool(answer["why_not"])) == (False, True)
    with pytest.raises(ClientError) as refused:
        viewer.recipes.start("demo")
    assert refused.value.status == 403


def test_the_page_of_one_run_starts_none_and_does_not_kill_itself(served: Served) -> None:
    assert served.ask("GET", "/api/v1/recipes").json()["can_start"] is False
    start = served.ask("POST", "/api/v1/runs", {"recipe": "demo", "id": "a"})
    assert (start.status, start.json()["error"]) == (409, "one_run")
    end = served.ask("POST", f"/api/v1/runs/{served.run.run_id}/end", {"how": "kill"})
    assert end.status == 409
    unknown = served.ask("POST", "/api/v1/runs/000000000000/end", {"how": "kill"})
    assert unknown.status == 404


def test_a_loop_is_offered_in_groups_previewed_and_started_with_a_file_by_id(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "events.h5").write_bytes(b"no HDF5 file")
    (data / "link.h5").symlink_to("/etc/passwd")
    config = RootServerConfig(outputs=tmp_path / "outputs", port=0, data=(data,))
    with RootServer(config) as server:
        recipes = Client(server.url).recipes
        (ae,) = [each for each in recipes.list() if each["name"] == "ae"]
        settings = {each["name"]: each for each in ae["settings"]}
        assert settings["phase1/encoder"]["choices"][:2] == ["conv", "diffusion"]
        assert settings["phase1.encoder.hidden_dims"]["group"] == "phase1/encoder"
        assert settings["data.path"]["kind"] == "file"
        assert [each["id"] for each in recipes.files()] == ["events.h5"]
        given = {"data": "h5", "phase1/encoder": "gnn", "phase1.encoder.hidden_dims": [8, 8]}
        assert "name: gnn" in recipes.preview("ae", **given)
        assert "events.h5" in recipes.preview("ae", **{"data.path": "events.h5"})
        for wrong, said in (
            ({"data.path": str(data / "events.h5")}, "there is no data file"),
            ({"data.path": "../data/events.h5"}, "there is no data file"),
            ({"phase1.tokenizer": "vq"}, "use phase1/latent_space"),
            ({**given, "data.path": "events.h5"}, "events.h5"),
        ):
            with pytest.raises(ClientError, match=said) as refused:
                recipes.start("ae", **wrong)
            assert refused.value.status == 422
        assert list((tmp_path / "outputs").glob("runs/*")) == []
