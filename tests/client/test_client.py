from __future__ import annotations

import itertools
import math

import pytest

from midstep.client import Client
from midstep.client.http_transport import Transport
from midstep.client.sse_reader import read_messages
from midstep.core.errors import ClientError, ConfigError
from midstep.core.files import storage
from midstep.live.run_socket import serve_on_socket
from midstep.server.auth.tokens import Tokens
from midstep.server.debug import command_routes
from midstep.session import Run
from tests.served import serving


def test_every_button_has_its_twin(client, served):
    assert client.state()["state"] == "paused"
    assert client.step(2)["step"] == 2
    assert client.run_until(5)["step"] == 5
    batch = client.batch(first=1, count=2, inline=True)
    assert (batch["step"], batch["shown"], batch["png"] is not None) == (4, 2, True)
    assert client.batch_picture(etag=batch["etag"]).startswith(b"\x89PNG")
    assert client.batch_sample(3)["label"] == 3
    assert client.batch_sample(3, picture=True).startswith(b"\x89PNG")
    assert client.step_data() == ["ids"]
    assert client.step_data("ids")["data"] == [4]
    made = client.breakpoints.add("every", n=7)
    assert [each["id"] for each in client.breakpoints.list()] == [made["id"]]
    assert client.breakpoints.enable(made["id"], False)["enabled"] is False
    assert client.breakpoints.set_action(made["id"], "mark")["action"] == "mark"
    client.breakpoints.remove(made["id"])
    assert client.breakpoints.list() == []
    assert client.watches.replace()["feature_ids"] == []
    assert client.watches.trajectories()["watched"] == []
    client.watches.clear()
    client.resume()
    assert client.pause()["parked"] is True
    assert client.runs.list()[0]["id"] == served.run.run_id
    assert client.scalars("loss")["loss"]["count"] >= 5
    assert client.events()[0]["moment"] == "on_start"
    record = client.command("step", n=1)
    assert record["status"] == "done"
    assert client.command_record(record["id"])["seq"] == record["seq"]
    assert client.commands()[-1]["who"] == "python"
    client.stop()


def test_refusals_are_errors_with_the_servers_words(client, served):
    with pytest.raises(ClientError, match="Already past") as caught:
        client.run_until(0)
    assert caught.value.status == 409
    with pytest.raises(ClientError, match="token") as caught:
        Client(served.url, "wrong").state()
    assert caught.value.status == 401
    with pytest.raises(ClientError, match="view-only"):
        Client(served.url, served.tokens.viewer).pause()
    with pytest.raises(ClientError) as caught:
        client.breakpoints.add("expression", expression="import os")
    assert caught.value.status == 422


def test_a_waiting_command_is_taken_back(tmp_path, monkeypatch):
    monkeypatch.setattr(command_routes, "EFFECT_WAIT_S", 0.01)
    with serving(tmp_path, loop=None) as served:
        client = Client(f"{served.url}/#token={served.tokens.control}")
        waiting = client.pause()
        assert client.cancel(waiting["id"])["status"] == "refused"
        with pytest.raises(ClientError, match="nothing to cancel"):
            client.cancel(waiting["id"])


def test_nobody_there_is_one_line_with_the_remedy():
    with pytest.raises(ClientError, match="no answer from") as caught:
        Client("http://127.0.0.1:9", "x").state()
    assert caught.value.status is None
    with pytest.raises(ConfigError, match="expected an address"):
        Client("ftp://host", "x")


def test_non_finite_numbers_arrive_as_floats(client, served):
    served.run.facts.log(1, loss=float("nan"), other=float("-inf"))
    found = client.scalars(["loss", "other"])
    assert math.isnan(found["loss"]["low"][0])
    assert found["other"]["low"] == [-math.inf]


def test_a_verb_whose_answer_was_lost_is_asked_again_and_done_once(client, monkeypatch):
    real, calls = client.transport.request, itertools.count()

    def broken_once(*args, **kwargs):
        answer = real(*args, **kwargs)
        if next(calls) == 0:
            raise ClientError("the response was cut off")
        return answer

    monkeypatch.setattr(client.transport, "request", broken_once)
    assert client.step(2)["step"] == 2
    assert next(calls) == 2


def test_the_only_live_run_is_found_by_its_lease(served, tmp_path):
    kept = Tokens.for_root(tmp_path)
    object.__setattr__(served.app.state.guard, "tokens", kept)
    served.run.lease.reachable_at(server_url=served.url)
    found = Client.find(tmp_path)
    assert found.run == served.run.run_id
    assert found.state()["state"] == "paused"
    assert kept.control not in repr(found) + repr(found.transport)


def test_a_run_without_a_page_is_found_by_its_socket(tmp_path):
    with Run(name="quiet", save_dir=tmp_path) as run, serve_on_socket(run):
        found = Client.find(tmp_path)
        assert found.run == run.run_id
        assert found.state()["state"] == "starting"
        assert str(run.lease.socket) in repr(found.transport)


@pytest.mark.parametrize("place", [{"url": "http://127.0.0.1:9"}, {"socket": "/nowhere/a.sock"}])
def test_a_leftover_lease_is_no_live_run(tmp_path, place):
    folder = tmp_path / "run_old"
    folder.mkdir()
    lease = {"run_id": "000000000000", **place}
    storage.replace_json(folder / "lease.json", lease)
    with pytest.raises(ClientError, match="no live run below"):
        Client.find(tmp_path)


def test_stream_goes_on_after_a_broken_connection(client, served, monkeypatch):
    """The transport breaks each connection after a few lines; nothing is lost or repeated."""
    monkeypatch.setattr("midstep.server.stream.run_stream.PING_S", 0.02)
    real = Transport.open

    class Cut:
        def __init__(self, answer):
            self.answer, self.status = answer, answer.status

        def __iter__(self):
            yield from itertools.islice(self.answer, 12)
            raise ConnectionResetError("cut")

    def cut(self, method, path, **rest):
        connection, answer = real(self, method, path, **rest)
        return connection, Cut(answer) if path.endswith("stream") else answer

    monkeypatch.setattr(Transport, "open", cut)
    seen: list[int] = []
    stream = read_messages(client.transport, served.run.run_id, sleep=lambda _: None)
    hellos = []
    for message in stream:
        if message["type"] == "hello":
            hellos.append(message["resumed"])
            served.run.facts.log(len(hellos), extra=1.0)
        elif "_id" in message:
            first = message.get("first_seq", message.get("seq"))
            seen.extend(range(first, int(message["_id"].split(".")[1]) + 1))
        if len(hellos) >= 5 and len(seen) >= 4:
            break
    stream.close()
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert hellos[0] is False
    assert any(hellos[1:])
