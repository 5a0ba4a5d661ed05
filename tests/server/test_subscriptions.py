"""A stream names what it shows; pictures and samples travel as bytes, under one etag."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from safetensors.torch import load

from midstep.control.capture.captured_data import Origin
from midstep.control.capture.subscriptions import Need
from midstep.server.debug.subscription_routes import SubscriptionsOut
from midstep.server.step_views.step_schemas import BatchOut, SampleOut
from tests.served import PATIENCE_S, Served, serving, serving_root
from tests.server.test_pictures import decode
from tests.server.test_stream import until, viewing

if TYPE_CHECKING:
    from midstep.session import Run

SAMPLES, SIDE = 80, 200


def images(run: Run) -> None:
    """A loop whose batches are images; sample i of step s is filled with s + i / 100."""
    controller = run.controller
    going = controller.boundary.enter()
    step = 0
    while going:
        shades = torch.arange(SAMPLES)[:, None, None, None] / 100 + step
        controller.capture_step_data("shades", shades.flatten())
        controller.capture_batch(
            shades.expand(SAMPLES, 3, SIDE, SIDE),
            float(step),
            step,
            labels=torch.arange(SAMPLES),
            sample_ids=[1000 + index for index in range(SAMPLES)],
            losses=torch.full((SAMPLES,), float(step)),
        )
        step += 1
        going = controller.wait_if_paused()


@pytest.fixture
def pictured(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, loop=images) as served:
        yield served


def put(served: Served, stream: str, version: int, *entries: dict[str, Any], **how: Any) -> Any:
    path = f"{served.debug}/streams/{stream}/subscriptions"
    return served.ask("PUT", path, {"version": version, "subscriptions": list(entries)}, **how)


BATCH = {"id": "batch/0/16", "kind": "batch", "first": 0, "count": 16}
SHADES = {"id": "step_data/shades", "kind": "step_data", "key": "shades"}


@pytest.mark.parametrize("opened", [serving, serving_root], ids=["one run", "many runs"])
@pytest.mark.parametrize("token", ["control", "viewer"])
def test_what_a_stream_subscribes_to_is_captured_and_told(tmp_path, opened, token) -> None:
    with opened(tmp_path, loop=images) as served, viewing(served, token=token) as events:
        hello = next(events)[1]
        assert (hello["captures"], len(hello["stream"]) >= 16) == (True, True)
        answer = put(served, hello["stream"], 1, BATCH, SHADES, token=token)
        assert answer.status == 200
        accepted = SubscriptionsOut.model_validate(answer.json())
        assert (accepted.version, accepted.accepted) == (1, [BATCH["id"], SHADES["id"]])
        served.controller.resume()
        notice = until(events, "capture", lambda each: each["id"] == BATCH["id"])
        assert notice["thinning"]["of"] == SAMPLES
        assert notice["thinning"]["shown"] == 16
        assert notice["bytes"] == 16 * 3 * 67 * 67 * 4
        assert notice["etag"].startswith(f"{notice['step']}.0.")
        until(events, "capture", lambda each: each["id"] == SHADES["id"])
        batch = served.ask("GET", f"{served.debug}/batch?count=16", token=token)
        assert batch.status == 200
        assert batch.json()["step"] >= notice["step"] - 1
        assert batch.headers["etag"] == f'"{batch.json()["etag"]}"'
        picture = served.ask("GET", f"{served.debug}/batch/picture?count=16", token=token)
        assert picture.body.startswith(b"\x89PNG")


def test_captures_end_with_the_stream(pictured: Served) -> None:
    subscriptions = pictured.controller.captures.subscriptions
    with viewing(pictured) as events:
        put(pictured, next(events)[1]["stream"], 1, BATCH)
        assert subscriptions.active
    _settle(lambda: not subscriptions.active)


def _settle(condition: Any) -> None:
    deadline = threading.Event()
    for _ in range(int(PATIENCE_S / 0.01)):
        if condition():
            return
        deadline.wait(0.01)
    raise AssertionError("it did not come to that")


def test_a_paused_run_tells_what_is_there_as_soon_as_it_is_subscribed(pictured: Served) -> None:
    pictured.ask("POST", "/debug/step", {})
    with viewing(pictured) as events:
        stream = next(events)[1]["stream"]
        put(pictured, stream, 1, BATCH, SHADES, {"id": "keys", "kind": "step_data"})
        ids = set()
        while ids != {BATCH["id"], SHADES["id"], "keys"}:
            notice = until(events, "capture")
            assert notice["step"] == 1
            ids.add(notice["id"])


def test_a_lower_version_is_ignored(pictured: Served) -> None:
    with viewing(pictured) as events:
        stream = next(events)[1]["stream"]
        put(pictured, stream, 7, BATCH)
        answer = put(pictured, stream, 6).json()
        assert answer == {"stream": stream, "version": 7, "accepted": [BATCH["id"]]}


@pytest.mark.parametrize(
    "entries",
    [
        [{**BATCH, "id": str(number), "count": 1} for number in range(33)],
        [{**BATCH, "id": str(number), "count": 200} for number in range(3)],
        [{**BATCH, "count": 0}],
        [{**BATCH, "count": 513}],
        [{**BATCH, "first": -1}],
        [BATCH, BATCH],
        [{**BATCH, "id": ""}],
        [{**BATCH, "id": "x" * 129}],
        [{**SHADES, "key": "x" * 513}],
        [{**SHADES, "path": "/etc/passwd"}],
        [{"id": "a", "kind": "layers", "key": "b"}],
        [{"id": "a", "kind": "secrets"}],
    ],
    ids=str,
)
def test_lists_beyond_the_limits_are_refused(served: Served, entries) -> None:
    with viewing(served) as events:
        stream = next(events)[1]["stream"]
        assert put(served, stream, 1, *entries).status == 422
        assert not served.controller.captures.subscriptions.active


def test_an_unknown_stream_is_refused(served: Served) -> None:
    for stream in ("x" * 22, "x" * 65):
        answer = put(served, stream, 1)
        assert answer.status in (404, 422)
    assert put(served, "x" * 22, 1).json()["error"] == "no_stream"


# -- the batch ------------------------------------------------------------------------------------


def test_geometry_and_picture_of_a_step_share_one_etag(pictured: Served) -> None:
    pictured.ask("POST", "/debug/step", {"n": 2})
    answer = pictured.ask("GET", "/debug/batch?first=4&count=20")
    batch = answer.json()
    BatchOut.model_validate(batch)
    grid = batch["grid"]
    assert (batch["count"], batch["first"], batch["shown"], batch["png"]) == (80, 4, 20, None)
    assert (grid["full_width"], grid["full_height"], grid["stride"]) == (SIDE, SIDE, 3)
    assert (grid["tile_width"], grid["tile_height"], grid["columns"]) == (67, 67, 16)
    assert batch["labels"] == list(range(4, 24))
    assert batch["sample_ids"] == list(range(1004, 1024))
    assert answer.headers["etag"] == f'"{batch["etag"]}"'
    picture = pictured.ask("GET", f"/debug/batch/picture?first=4&count=20&etag={batch['etag']}")
    assert (picture.headers["content-type"], picture.headers["etag"]) == (
        "image/png",
        answer.headers["etag"],
    )
    pixels = decode(picture.body)
    assert pixels.shape == (2 * 67, 16 * 67, 3)
    low, high = grid["low"], grid["high"]
    for tile in (0, 17):
        top, left = tile // 16 * 67, tile % 16 * 67
        shade = 1 + (4 + tile) / 100
        expected = round((shade - low) / (high - low) * 255)
        assert (pixels[top : top + 67, left : left + 67] == expected).all()


@pytest.mark.parametrize("path", ["batch", "batch/picture"])
def test_a_known_etag_is_answered_without_a_body(pictured: Served, path: str) -> None:
    pictured.ask("POST", "/debug/step", {})
    etag = pictured.ask("GET", f"/debug/{path}").headers["etag"]
    for known in (etag, f'"other", W/{etag}'):
        again = pictured.ask("GET", f"/debug/{path}", headers={"If-None-Match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
    pictured.ask("POST", "/debug/step", {})
    assert pictured.ask("GET", f"/debug/{path}", headers={"If-None-Match": etag}).status == 200


def test_the_picture_of_a_capture_that_is_gone_is_refused(pictured: Served) -> None:
    pictured.ask("POST", "/debug/step", {})
    etag = pictured.ask("GET", "/debug/batch").json()["etag"]
    pictured.ask("POST", "/debug/step", {"n": 3})
    answer = pictured.ask("GET", f"/debug/batch/picture?etag={etag}")
    assert (answer.status, answer.json()["error"]) == (409, "other_step")


def test_an_inline_picture_is_small(pictured: Served) -> None:
    noise = torch.rand(512, 3, 96, 96)
    pictured.controller.captures.add_step_data("unused", 1)
    captured(pictured, noise, labels=["\u2028" * 100] * 512, losses=torch.rand(512))
    answer = pictured.ask("GET", "/debug/batch?count=512&inline=1")
    batch = answer.json()
    assert len(answer.body) <= 300_000
    grid = batch["grid"]
    pixels = decode(base64.b64decode(batch["png"]))
    assert pixels.shape == (
        grid["rows"] * grid["tile_height"],
        grid["columns"] * grid["tile_width"],
        3,
    )
    assert grid["stride"] > 1


@pytest.mark.parametrize(
    "batch",
    [torch.rand(512, 100), torch.randint(10**9, (512, 4096)), torch.rand(512, 3, 224, 224)],
    ids=["vectors", "tokens", "images"],
)
def test_the_json_of_any_batch_is_small(pictured: Served, batch: torch.Tensor) -> None:
    captured(pictured, batch, labels=["x" * 100] * 512, losses=torch.rand(512))
    answer = pictured.ask("GET", "/debug/batch?count=512")
    assert answer.status == 200
    assert len(answer.body) <= 300_000
    assert answer.json()["shown"] == 512


def captured(served: Served, batch: Any, **rest: Any) -> None:
    """Let the loop stand at a step with this batch."""
    from midstep.control import CapturedBatch

    whole = CapturedBatch(step=0, batch=batch, loss=0.5, **rest).copy("1.0.1")
    served.controller.captures.recent = (whole,)


def test_pixels_that_are_not_finite_are_transparent(pictured: Served) -> None:
    batch = torch.zeros(2, 1, 8, 8)
    batch[1, 0, 0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
    captured(pictured, batch)
    assert pictured.ask("GET", "/debug/batch").json()["nonfinite"] == 3
    pixels = decode(pictured.ask("GET", "/debug/batch/picture").body)
    assert pixels.shape == (8, 16, 2)
    alpha = np.full((8, 16), 255)
    alpha[0, 8:11] = 0
    assert np.array_equal(pixels[..., 1], alpha)
    colour = batch.expand(2, 3, 8, 8).clone()
    colour[0, 2, 4, 4] = float("nan")  # one channel is enough
    captured(pictured, colour)
    pixels = decode(pictured.ask("GET", "/debug/batch/picture").body)
    assert (pixels.shape, pixels[4, 4, 3]) == ((8, 16, 4), 0)


def test_data_of_an_earlier_step_than_the_pause_says_so(pictured: Served) -> None:
    control = pictured.controller
    with control.captures.viewer(Need(kind="step_data", key="shades")):
        control.resume()
        # On a busy machine no step may end within the time that one request waits.
        _settle(lambda: pictured.ask("GET", "/debug/step_data/shades").status == 200)
        control.pause()
        until_parked(pictured)
    assert pictured.ask("GET", "/debug/step_data/shades").json()["note"] is None  # it was pushed
    at, published = control.boundary.finished_steps, control.captures.data.published
    earlier = replace(published, origins={"shades": Origin(step=at - 2)})
    control.captures.data.published = earlier
    note = pictured.ask("GET", "/debug/step_data/shades").json()["note"]
    assert f"this is step {at - 2:,}" in note
    assert f"paused after step {at:,}; make one step" in note


def until_parked(served: Served) -> None:
    _settle(lambda: served.controller.is_parked)


# -- one sample -----------------------------------------------------------------------------------


def test_one_sample_comes_at_full_resolution(pictured: Served) -> None:
    pictured.ask("POST", "/debug/step", {})
    sample = pictured.ask("GET", "/debug/batch/sample?index=17").json()
    SampleOut.model_validate(sample)
    assert (sample["width"], sample["height"], sample["channels"]) == (SIDE, SIDE, 3)
    assert (sample["label"], sample["sample_id"], sample["values"]) == (17, 1017, None)
    picture = pictured.ask("GET", "/debug/batch/sample?index=17&format=png")
    assert picture.headers["content-type"] == "image/png"
    assert decode(picture.body).shape == (SIDE, SIDE, 3)
    tensor = load(pictured.ask("GET", "/debug/batch/sample?index=17&format=safetensors").body)
    assert torch.equal(tensor["sample"], torch.full((3, SIDE, SIDE), 0.17))
    for form in ("json", "png", "safetensors"):
        answer = pictured.ask("GET", f"/debug/batch/sample?index=80&format={form}")
        assert (answer.status, answer.json()["error"]) == (404, "no_sample"), form


def test_a_small_sample_comes_with_its_values(served: Served) -> None:
    served.ask("POST", "/debug/step", {"n": 3})
    sample = served.ask("GET", "/debug/batch/sample?index=1").json()
    assert sample["values"] == pytest.approx([0.2] * 64)
    assert served.ask("GET", "/debug/batch/sample?index=1&format=png").status == 200


def test_samples_that_are_no_images_have_no_picture(pictured: Served) -> None:
    captured(pictured, torch.arange(12).reshape(3, 4))
    for path in ("batch/picture", "batch/sample?index=0&format=png"):
        answer = pictured.ask("GET", f"/debug/{path}")
        assert (answer.status, answer.json()["error"]) == (404, "no_picture")
    assert pictured.ask("GET", "/debug/batch").json()["rows"][2] == [8, 9, 10, 11]
    assert pictured.ask("GET", "/debug/batch/sample?index=2").json()["values"] == [8, 9, 10, 11]


# -- leases ---------------------------------------------------------------------------------------


def test_a_client_without_a_stream_gets_its_first_answer_of_a_running_loop(
    pictured: Served,
) -> None:
    pictured.controller.resume()
    first = pictured.ask("GET", "/debug/batch?count=8")
    assert first.status == 200
    whole = load(pictured.ask("GET", "/debug/batch?format=safetensors").body)["batch"]
    assert tuple(whole.shape) == (SAMPLES, 3, SIDE, SIDE)
    assert pictured.ask("GET", "/debug/batch/sample?index=79").json()["step"] > 0
    entry = pictured.ask("GET", "/debug/step_data/shades").json()
    assert entry["step"] > 1
    assert "shades" in pictured.ask("GET", "/debug/step_data/keys").json()["keys"]
    assert pictured.controller.captures.viewers == 0
