"""The client shows its token to nobody who cannot prove to know it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from midstep.client import Client
from midstep.client.token_proof import check_proofs, make_proof, new_challenge
from midstep.core.errors import ClientError


@contextmanager
def listening(answer):
    """Somebody else on a port, who answers as told; gives the port and what was heard."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            heard.append(f"{self.requestline}\n{self.headers}")
            status, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_):
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port, heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"ok","version":"1","proofs":["00"]}',
        b'{"status":"ok","version":"1"}',
        b'{"proofs": "all of them"}',
        b"[]",
        b"not json",
        b"",
    ],
)
def test_an_impostor_learns_no_token(body, shared):
    token = shared.tokens.control
    with listening(lambda _: (200, body)) as (port, heard):
        client = Client(f"http://127.0.0.1:{port}", token, timeout_s=10)
        for ask in (client.state, client.pause, lambda: next(client.stream())):
            with pytest.raises(ClientError, match="so it was not sent"):
                ask()
    assert heard
    assert token not in "".join(heard)
    assert all("authorization" not in each.lower() for each in heard)


def test_an_impostor_cannot_pass_the_question_on(shared):
    """Its own address is part of the question, and a server answers only for its own."""
    token, passed = shared.tokens.control, []

    def relay(handler):
        connection = HTTPConnection("127.0.0.1", shared.port, timeout=30)
        try:
            for host in (handler.headers["Host"], f"127.0.0.1:{shared.port}"):
                connection.request("GET", handler.path, headers={"Host": host})
                answer = connection.getresponse()
                body = answer.read()
                passed.append(answer.status)
            return answer.status, body
        finally:
            connection.close()

    with listening(relay) as (port, heard):
        client = Client(f"http://127.0.0.1:{port}", token, timeout_s=10)
        with pytest.raises(ClientError, match="so it was not sent"):
            client.state()
    assert passed == [403, 200]  # the real server did answer, for its own address
    assert token not in "".join(heard)


def test_the_real_server_proves_both_tokens(shared):
    host = f"127.0.0.1:{shared.port}"
    challenge = new_challenge()
    answer = shared.ask("GET", f"/api/v1/health?challenge={challenge}", token=None).json()
    for token in (shared.tokens.control, shared.tokens.viewer):
        assert check_proofs(answer["proofs"], token, challenge, host)
        assert not check_proofs(answer["proofs"], token, new_challenge(), host)
        assert not check_proofs(answer["proofs"], token, challenge, "127.0.0.1:1")
    assert Client(shared.url, shared.tokens.viewer).runs.list()[0]["id"] == shared.run.run_id


def test_no_challenge_no_proof_and_odd_challenges_are_refused(shared):
    assert shared.ask("GET", "/api/v1/health", token=None).json()["proofs"] == []
    for odd in ("short", "x" * 129, "%20" * 20, "a%0ab" * 8):
        assert shared.ask("GET", f"/api/v1/health?challenge={odd}", token=None).status == 422


def test_proofs_differ_by_token_challenge_and_host():
    made = {
        make_proof(token, challenge, host)
        for token in "ab"
        for challenge in "cd"
        for host in ("h:1", "h:2")
    }
    assert len(made) == 8
