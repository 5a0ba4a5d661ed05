"""Walks every route × method of the app object."""

from __future__ import annotations

import pytest

from tests.security.walk import METHODS, is_open, is_subscription, paths_of

WRITES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def served(shared):
    return shared


@pytest.fixture
def paths(served):
    found = paths_of(served.app, served.run.run_id)
    assert len(found) > 40
    return found


def test_without_a_token_only_the_page_and_health_answer(served, paths):
    for path in paths:
        for method in METHODS:
            answer = served.ask(method, path, token=None)
            if is_open(path) and method in ("GET", "HEAD"):
                assert answer.status in (200, 404, 405, 503), (method, path)
            else:
                assert answer.status in (401, 403, 405), (method, path, answer.status)


def test_a_page_file_answer_carries_no_run_data(served, paths):
    for path in filter(is_open, paths):
        assert served.run.run_id.encode() not in served.ask("GET", path, token=None).body


def test_a_viewer_token_cannot_write_anywhere_but_subscribe(served, paths):
    before = served.ask("GET", f"{served.debug}/state").json()
    for path in paths:
        for method in WRITES:
            answer = served.ask(method, path, {}, token="viewer")
            allowed = (422,) if (method, is_subscription(path)) == ("PUT", True) else (403, 405)
            assert answer.status in allowed, (method, path, answer.status)
    after = served.ask("GET", f"{served.debug}/state").json()
    assert {**after, "boundary_age_s": 0} == {**before, "boundary_age_s": 0}
    assert (
        served.controller.queue.latest() == served.controller.queue.latest()[:1]
    )  # the fixture's pause
    assert served.controller.list_breakpoints() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.test"},
        {"Host": "127.0.0.1.evil.test"},
        {"Host": ""},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "user@127.0.0.1"},
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=lambda headers: "=".join(next(iter(headers.items()))),
)
def test_foreign_requests_are_refused_everywhere(served, paths, headers):
    for path in paths:
        for method in ("GET", "POST"):
            answer = served.ask(method, path, {} if method == "POST" else None, headers=headers)
            assert answer.status == 403, (method, path, answer.status)


def test_the_one_write_of_a_viewer_is_the_only_route_of_its_method(served):
    """The guard lets a PUT to this address pass, so no other route may take one."""
    takers = {route.path for route in served.app.routes if "PUT" in getattr(route, "methods", ())}
    assert {path.rpartition("/debug/")[2] for path in takers} == {"streams/{stream}/subscriptions"}
    assert len(takers) == 2


@pytest.mark.parametrize(
    "path",
    [
        "/debug/streams/x/subscriptions/",
        "/debug/streams/x/subscriptions/more",
        "/debug/streams/x/y/subscriptions",
        "/debug/streams//subscriptions",
        "/debug/breakpoints?/debug/streams/x/subscriptions",
        "/api/v1/runs/a/b/debug/streams/x/subscriptions",
        "/x/debug/streams/x/subscriptions",
    ],
)
def test_addresses_like_that_of_a_subscription_stay_closed_to_a_viewer(served, path):
    for method in WRITES:
        assert served.ask(method, path, {}, token="viewer").status == 403, method


def test_a_subscription_of_a_viewer_changes_no_training_state(served):
    from tests.server.test_stream import viewing

    before = served.ask("GET", f"{served.debug}/state").json()
    with viewing(served, token="viewer") as events:
        path = f"{served.debug}/streams/{next(events)[1]['stream']}/subscriptions"
        kinds = ("batch", "step_data", "layers", "forces", "cosine_matrix", "weights")
        body = {"version": 1, "subscriptions": [{"id": each, "kind": each} for each in kinds]}
        for token in (None, "x" * 43):
            assert served.ask("PUT", path, body, token=token).status == 401
        for kind in ("text/plain", ""):
            headers = {"Content-Type": kind}
            assert served.ask("PUT", path, body, token="viewer", headers=headers).status == 415
        assert not served.controller.captures.subscriptions.active
        assert served.ask("PUT", path, body, token="viewer").status == 200
        assert served.controller.captures.subscriptions.active
    after = served.ask("GET", f"{served.debug}/state").json()
    assert {**after, "boundary_age_s": 0} == {**before, "boundary_age_s": 0}


def test_our_own_page_is_let_through(served):
    for site in ("same-origin", "none"):
        headers = {"Origin": served.url, "Sec-Fetch-Site": site}
        assert served.ask("GET", f"{served.debug}/state", headers=headers).status == 200
    by_name = {"Host": f"localhost:{served.port}"}
    assert served.ask("GET", "/debug/state", headers=by_name).status == 200


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""],
)
def test_writes_take_json_only(served, paths, kind):
    for path in paths:
        for method in WRITES:
            answer = served.ask(method, path, b"{}", headers={"Content-Type": kind})
            assert answer.status in (415, 405), (method, path, answer.status)


def test_reading_every_route_changes_nothing(served, paths):
    before = served.ask("GET", f"{served.debug}/state").json()
    for path in paths:
        if path != "/api/v1/stream":
            assert served.ask("GET", path).status in (200, 404, 405, 409, 422, 503), path
    after = served.ask("GET", f"{served.debug}/state").json()
    assert {**after, "boundary_age_s": 0} == {**before, "boundary_age_s": 0}


def test_a_viewer_token_reads_every_dataset_route(served, paths):
    found = [path for path in paths if path.startswith("/api/v1/datasets")]
    assert len(found) == 7
    for path in found:
        assert served.ask("GET", path, token="viewer").status == 200, path


def test_every_answer_has_the_security_headers(served, paths):
    for path in paths:
        if path == "/api/v1/stream":
            continue
        for token in ("control", None):
            headers = served.ask("GET", path, token=token).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert "cache-control" in headers
            assert not [name for name in headers if name.startswith("access-control")]
            assert "server" not in headers
