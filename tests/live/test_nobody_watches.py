"""With nobody watching nothing is cloned, encoded or sent; with a viewer all of it is."""

from __future__ import annotations

from collections import Counter

import pytest

from midstep.client import Client
from midstep.control.capture import captured_data, captures
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

    for module in (captured_data, captures):
        count("cloned", module, "clone_or_reason")
    count("encoded", responses, "json_bytes")
    count("sent", stream_frames, "_event")
    return counts


def test_nothing_is_cloned_encoded_or_sent_when_nobody_watches(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True, port=0) as run:
        for step in range(3):
            run.controller.capture_step_data("weight", plain.model.weight)
            plain.train(run, epochs=1)
            assert run.step == 6 * (step + 1)
    assert counted == {}


def test_the_same_run_is_cloned_encoded_and_sent_to_a_viewer(counted, tmp_path):
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path, serve=True, port=0) as run:
        stream = Client(run.url).stream()
        assert next(stream)["type"] == "hello"
        plain.train(run, epochs=1)
        assert Client(run.url).batch()["count"] == 4
        stream.close()
    assert all(counted[name] for name in ("cloned", "encoded", "sent"))
