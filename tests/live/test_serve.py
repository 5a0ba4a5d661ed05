"""`serve`: any run on the page, and off it again."""

from __future__ import annotations

import json
import socket
import urllib.request

import pytest

from midstep.control import DebugController
from midstep.core.errors import ConfigError, StorageError
from midstep.facts import end_state, read_lease
from midstep.live import attach, serve
from midstep.session import Run
from tests.checkers.neutral import wait_until
from tests.live.trainer import Plain, in_thread


def ask(url: str, path: str, **headers: str) -> dict:
    base, token = url.split("/#token=")
    asked = urllib.request.Request(
        base + path, headers={"Authorization": f"Bearer {token}", **headers}
    )
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return json.load(answer)


def test_a_bare_controller_gets_a_run_with_facts_that_ends_with_the_block(tmp_path):
    control = DebugController()
    with serve(control, port=0, name="mine", save_dir=tmp_path) as page:
        control.capture_batch([0.0], 0.5, 0)
        assert control.wait_if_paused()
        assert ask(page.url, "/debug/state")["step"] == 1
        assert page.controller is control
        assert page.run.dir.name.endswith("_mine")
    assert end_state(page.run.dir).state == "finished"
    with pytest.raises(OSError, match="refused"):
        ask(page.url, "/debug/state")


def test_the_viewer_link_reads_and_cannot_write(tmp_path):
    with serve(DebugController(), port=0, save_dir=tmp_path) as page:
        assert ask(page.viewer_url, "/debug/state")["state"] == "starting"
        base, token = page.viewer_url.split("/#token=")
        asked = urllib.request.Request(
            f"{base}/debug/pause",
            data=b"{}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=30)
        assert refused.value.code == 403
        refused.value.close()


def test_a_run_is_served_and_goes_on_without_the_page(tmp_path):
    with Run(name="mine", save_dir=tmp_path) as run:
        with serve(run, port=0) as page:
            assert ask(page.url, "/api/v1/runs")["runs"][0]["id"] == run.run_id
            assert read_lease(run.dir)["url"] == page.url.split("/#")[0]
            assert run.page_url == page.url
        assert run.page_url is None
        assert not run.ended
        assert run.controller.wait_if_paused()
    assert end_state(run.dir).state == "finished"


def test_a_taken_port_is_refused_before_anything_is_written(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is taken"):
            serve(DebugController(), port=port, save_dir=tmp_path)
        with (
            pytest.raises(ConfigError, match=f"port {port} is taken"),
            attach(*Plain().parts, save_dir=tmp_path, serve=True, port=port),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_wide_bind_needs_the_names_it_answers_under(tmp_path):
    with pytest.raises(ConfigError, match="allowed_hosts"):
        serve(DebugController(), host="0.0.0.0", save_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_is_refused_by_its_type(tmp_path):
    with pytest.raises(ConfigError, match="got int"):
        serve(3)


def test_an_error_inside_is_on_record_and_passes_through(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        serve(DebugController(), port=0, save_dir=tmp_path) as page,
    ):
        raise ZeroDivisionError
    assert end_state(page.run.dir).state == "failed"


def test_an_error_parks_while_the_page_is_still_there_to_look_at_it(tmp_path):
    plain = Plain()
    attached = attach(*plain.parts, save_dir=tmp_path, serve=True, port=0, on_error="park")

    def body(run):
        raise ZeroDivisionError("look at me")

    def look():
        wait_until(attached.controller, lambda state: state["parked"])
        state = ask(attached.url, "/debug/state")
        assert "look at me" in state["reason"]

    with pytest.raises(ZeroDivisionError), in_thread(attached, body):
        look()


def test_mode_off_makes_no_run_and_no_page_and_the_controller_works(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "off")
    control = DebugController()
    with serve(control, port=0, save_dir=tmp_path, open_browser=True) as page:
        assert (page.url, page.viewer_url, page.port) == (None, None, None)
        assert page.controller is control
        control.capture_batch([0.0], 0.5, 0)
        assert control.wait_if_paused()
        with pytest.raises(ConfigError, match="MIDSTEP_MODE is off"):
            _ = page.run
    with pytest.raises(ZeroDivisionError), serve(control, save_dir=tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_mode_off_serves_an_attached_loop_without_a_word(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "off")
    plain = Plain()
    with attach(*plain.parts, save_dir=tmp_path) as run, serve(run) as page:
        plain.train(run)
        assert page.url is None
    assert list(tmp_path.iterdir()) == []


def test_mode_record_writes_facts_and_serves_no_page(tmp_path, monkeypatch):
    monkeypatch.setenv("MIDSTEP_MODE", "record")
    with serve(DebugController(), port=0, save_dir=tmp_path) as page:
        assert page.url is None
        assert read_lease(page.run.dir)["url"] is None
    assert end_state(page.run.dir).state == "finished"


def test_a_token_that_cannot_be_kept_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    runs = tmp_path / "runs"
    with pytest.raises(StorageError, match="file/midstep: Not a directory; set XDG_STATE_HOME"):
        serve(DebugController(), port=0, save_dir=runs)
    with (
        pytest.raises(StorageError, match="set XDG_STATE_HOME to a folder that you may write"),
        attach(*Plain().parts, save_dir=runs, serve=True, port=0),
    ):
        pass
    assert not runs.exists()


def test_the_browser_is_opened_when_asked_for(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with serve(DebugController(), port=0, save_dir=tmp_path, open_browser=True) as page:
        assert opened == [page.url]
