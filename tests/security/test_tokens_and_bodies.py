"""The HTTP part of the attack list: tokens, bodies, ids, methods."""

from __future__ import annotations

import json
import logging
from urllib.parse import quote

import pytest

from midstep.server.auth.tokens import Tokens
from tests.served import serving


def state(served, **rest):
    return served.ask("GET", "/debug/state", **rest)


def test_tokens_in_the_wrong_place_or_form_are_refused(served):
    right = served.tokens.control
    assert state(served).status == 200
    assert served.ask("GET", f"/debug/state?token={right}", token=None).status == 401
    assert served.ask("GET", f"/debug/state?access_token={right}", token=None).status == 401
    for wrong in (right[:-1], right + "x", "x" * 5000, "", right.upper()):
        assert state(served, token=wrong or None).status == 401
    for header in (f"Basic {right}", right, f"Bearer  {right}", f"Bearer {right},x", "Bearer é"):
        raw = {"Authorization": header.encode("utf-8").decode("latin-1")}
        assert state(served, token=None, headers=raw).status == 401
    cookie = {"Cookie": f"token={right}"}
    assert state(served, token=None, headers=cookie).status == 401


def test_doubled_headers_are_refused(served):
    right = served.tokens.control.encode()
    for extra in (b"Host: evil.test\r\n", b"Authorization: Bearer x\r\n"):
        connection = served.raw(
            b"GET /debug/state HTTP/1.1\r\n"
            + f"Host: 127.0.0.1:{served.port}\r\n".encode()
            + extra
            + b"Authorization: Bearer "
            + right
            + b"\r\nConnection: close\r\n\r\n"
        )
        with connection, connection.makefile("rb") as answer:
            assert int(answer.readline().split()[1]) in (400, 401, 403)


def test_forwarded_headers_and_method_overrides_are_ignored(served):
    forwarded = {"X-Forwarded-Host": "evil.test", "X-Forwarded-For": "10.0.0.1"}
    assert state(served, headers=forwarded).status == 200
    overrides = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "POST"}
    assert served.ask("GET", "/debug/stop", headers=overrides).status == 405
    assert not served.controller.get_state()["stopped"]


def test_wrong_tokens_end_in_429_while_the_right_one_works_from_elsewhere(served):
    statuses = [state(served, token="wrong").status for _ in range(201)]
    assert statuses[:200] == [401] * 200
    assert statuses[200] == 429
    assert state(served, source="127.0.0.2").status == 200
    assert state(served, token="wrong", source="127.0.0.2").status == 401


def test_no_token_is_in_any_log_line(served, caplog):
    caplog.set_level(logging.DEBUG)
    secrets = [served.tokens.control, served.tokens.viewer, "wrong-token-value"]
    for token in secrets:
        state(served, token=token)
        served.ask("GET", f"/debug/nothing?token={token}", token=token)
        served.ask("POST", "/debug/step", {"n": token}, token=token)
        served.ask("POST", "/debug/pause", b"\x00", token=token)
    with served.raw(f"GET /{secrets[0]} nonsense\r\n\r\n".encode()) as connection:
        connection.recv(100)
    told = "\n".join(record.getMessage() + str(record.exc_text) for record in caplog.records)
    assert not [token for token in secrets if token in told]
    assert served.tokens.control not in repr(served.tokens) + repr(served.app.state.guard)


@pytest.mark.parametrize(
    "body",
    [
        b'{"n": 1, "n": 2}',
        b'{"n": 1e999}',
        b'{"n": NaN}',
        b'{"n": -Infinity}',
        b'{"n": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 40 + b"]" * 40,
        b"{",
        b"\xff\xfe",
        b'{"n": ' + b"9" * 5000 + b"}",
        b"nonsense",
        b"[]",
        b'"text"',
        b"7",
        b'{"n": true}',
        b'{"n": "1"}',
        b'{"n": 1.0}',
        b'{"n": 0}',
        b'{"n": -1}',
        b'{"n": null}',
        b'{"unknown": 1}',
        b'{"__proto__": {}}',
    ],
    ids=lambda body: body[:24].decode("latin-1"),
)
def test_bad_bodies_are_refused_and_nothing_moves(shared, body):
    answer = shared.ask("POST", "/debug/step", body)
    assert answer.status in (400, 422), answer.body[:200]
    assert set(json.loads(answer.body)) >= {"error", "message"}
    assert shared.controller.get_state()["step"] == 0


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999", "-1", '"0.1"', "true", "null"])
def test_a_wrong_number_is_answered_with_the_name_of_its_field(shared, value):
    body = f'{{"condition": {{"kind": "grad_norm", "limit": {value}}}}}'.encode()
    answer = shared.ask("POST", "/debug/breakpoints", body)
    assert answer.status == 422
    assert answer.json()["field"] == "condition.limit"


def test_an_expression_outside_the_grammar_is_refused_in_one_line(served):
    for text in ("__import__('os')", "loss.real", "loss >", "lambda: 1", "x" * 500):
        condition = {"kind": "expression", "expression": text}
        answer = served.ask("POST", "/debug/breakpoints", {"condition": condition})
        assert answer.status in (201, 422)
        assert answer.status == 422 or text == "x" * 500
        assert "Traceback" not in answer.body.decode()


def post_head(served, *further):
    lines = [
        "POST /debug/step HTTP/1.1",
        f"Host: 127.0.0.1:{served.port}",
        f"Authorization: Bearer {served.tokens.control}",
        "Content-Type: application/json",
        *further,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_a_long_body_is_refused_by_its_length_alone(served):
    for length in ((1 << 20) + 1, 10**30):
        connection = served.raw(post_head(served, f"Content-Length: {length}"))
        with connection, connection.makefile("rb") as answer:
            assert answer.readline().split()[1] in (b"413", b"400")


def test_endless_chunks_end_at_the_limit(served):
    connection = served.raw(post_head(served, "Transfer-Encoding: chunked"))
    with connection, connection.makefile("rb") as answer:
        for _ in range(17):
            connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        assert answer.readline().split()[1] == b"413"
        assert b"connection: close" in [
            line.strip().lower() for line in iter(answer.readline, b"\r\n")
        ]


UNKNOWN_IDS = [
    "..",
    "%2e%2e",
    "%252e%252e%252f",
    "..%2f..%2fetc%2fpasswd",
    "a%00b",
    "x" * 5000,
    "%ff%fe",
    "'; drop table runs",
    "<script>",
    "000000000000",
]


@pytest.mark.parametrize("run_id", UNKNOWN_IDS, ids=lambda text: text[:20])
@pytest.mark.parametrize("rest", ["", "/scalars", "/events", "/debug/state", "/commands"])
def test_every_wrong_run_id_gets_the_same_answer(shared, run_id, rest):
    unknown = shared.ask("GET", "/api/v1/runs/zzzzzzzzzzzz")
    answer = shared.ask("GET", f"/api/v1/runs/{run_id.replace(' ', '%20')}{rest}")
    assert (answer.status, answer.body) == (404, unknown.body)


def test_a_sibling_with_the_same_prefix_is_unknown(served):
    for run_id in (served.run.run_id[:-1], served.run.run_id + "x", served.run.run_id.upper()):
        if run_id != served.run.run_id:
            assert served.ask("GET", f"/api/v1/runs/{run_id}").status == 404
            assert served.ask("POST", f"/api/v1/runs/{run_id}/debug/stop", {}).status == 404


def test_files_outside_the_bundle_are_out_of_reach(served):
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/../app.py", "/assets/..%2fapp.py"):
        assert served.ask("GET", path).status == 404


def test_an_unhandled_error_answers_an_id_and_nothing_else(served, caplog, monkeypatch):
    def broken():
        raise KeyError("a secret of the inside")

    monkeypatch.setattr(served.controller, "get_state", broken)
    answer = served.ask("GET", "/debug/state")
    monkeypatch.undo()
    told = answer.json()
    assert answer.status == 500
    assert "secret" not in answer.body.decode()
    assert told["incident"] in caplog.text
    assert "a secret of the inside" in caplog.text


def test_odd_names_travel_as_text(served):
    names = ["<img src=x onerror=alert(1)>", "\u202eevil", '=HYPERLINK("x","y")', "__proto__"]
    served.run.facts.log_values(1, dict.fromkeys(names, 1.0))
    answer = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/scalars")
    assert answer.headers["content-type"] == "application/json"
    assert set(names) <= set(answer.json()["series"])
    for name in names:
        asked = served.ask("GET", f"/api/v1/runs/{served.run.run_id}/scalars?names={quote(name)}")
        assert list(asked.json()["series"]) == [name]


def test_websockets_are_refused(served):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = served.ask("GET", "/api/v1/stream", token=None, headers=upgrade)
    assert answer.status == 401


def test_token_file_is_private_and_survives_restarts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = Tokens.for_root(tmp_path / "runs")
    (path,) = (tmp_path / "state" / "midstep").glob("*.token.json")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert Tokens.for_root(tmp_path / "runs") == first
    assert Tokens.for_root(tmp_path / "other") != first
    replaced = Tokens.for_root(tmp_path / "runs", new=True)
    assert replaced.control != first.control
    assert replaced.role(first.control) is None


def test_a_token_file_that_others_could_read_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = Tokens.for_root(tmp_path)
    (path,) = (tmp_path / "state" / "midstep").glob("*.token.json")
    path.chmod(0o644)
    assert Tokens.for_root(tmp_path) != first
    path.write_text("damaged")
    assert Tokens.for_root(tmp_path).control


def test_allowed_hosts_are_exact(tmp_path):
    with serving(tmp_path, allowed_hosts=("node7:8765",)) as served:
        assert state(served, headers={"Host": "node7:8765"}).status == 200
        assert state(served, headers={"Host": "node7"}).status == 403
        assert state(served, headers={"Host": "NODE7:8765"}).status == 403
