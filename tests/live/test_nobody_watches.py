"""With nothing in view nothing is cloned, encoded or sent; with a subscription all of it is."""

from __future__ import annotations

from collections import Counter

import pytest

from midstep.client import Client
from midstep.control.capture import captured_data, step_data_store
from midstep.live import attach
from midstep.server import responses
from midstep.server.stream import stream_frames
from tests.live.trainer import Plain


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of work was done."""
    counts: Counter[str] = Counter()

    def count(name, owner, attribute):
        real = getattr(owner, attribute)

        def counting(*arguments, **settings):
            counts[name] += 1
            return real(*arguments, **settings)

        monkeypatch.setattr(owner, attribute, counting)

    for module in (captured_data, step_data_store):
        count("cloned", module, "clone_or_reason")
    count("encoded", responses, "json_bytes")
    count("sent", stream_frames, "event_bytes")
    return counts


def test_nothing_is_cloned_encoded_or_sent_when_nobody_watches(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True, port=0, evidence=False) as run:
        for step in range(3):
            run.controller.capture_step_data("weight", plain.model.weight)
            plain.train(run, epochs=1)
            assert run.step == 6 * (step + 1)
    assert counted == {}


def test_of_a_known_total_the_last_step_alone_is_captured_to_be_kept(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run:
        captured = []
        run.controller.sinks.on_step_begin(
            lambda: captured.append((run.step, counted["cloned"], run.controller.captures.plan))
        )
        plain.train(run, epochs=3)
    steps = [(step, plan.ranges) for step, cloned, plan in captured if plan]
    assert not any(cloned for step, cloned, _ in captured if step < 18)
    assert steps == [(17, ((0, 128),))]


def test_nothing_is_cloned_for_a_viewer_who_shows_nothing(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True, port=0, evidence=False) as run:
        stream = Client(run.url).stream()
        assert next(stream)["type"] == "hello"
        run.controller.capture_step_data("weight", plain.model.weight)
        plain.train(run, epochs=1)
        stream.close()
    assert (counted["cloned"], counted["sent"] > 0) == (0, True)


def test_the_same_run_is_cloned_encoded_and_sent_to_one_who_subscribes(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True, port=0) as run:
        client = Client(run.url)
        stream = client.stream()
        path = f"/debug/streams/{next(stream)['stream']}/subscriptions"
        body = {"version": 1, "subscriptions": [{"id": "batch", "kind": "batch"}]}
        client.transport.request("PUT", path, body=body)
        plain.train(run, epochs=1)
        assert client.batch()["count"] == 4
        stream.close()
    assert all(counted[name] for name in ("cloned", "encoded", "sent"))
