"""New run offers the scripts that the server was started with, and sends an id and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from midstep.server.root_server import RootServer, RootServerConfig

pytestmark = pytest.mark.browser


def test_a_script_is_chosen_by_its_title_and_sent_by_its_id(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "idle.py").write_text("print('nothing to train')\n")
    monkeypatch.chdir(tmp_path)
    config = RootServerConfig(outputs=tmp_path / "outputs", port=0, scripts=("idle.py --lr 1",))
    with RootServer(config) as server:
        page.goto(server.url.replace("/#", "/runs#"))
        page.get_by_role("button", name="New run").click()
        dialog = page.get_by_role("dialog", name="New run")
        expect(dialog).to_contain_text("midstep run idle.py --lr 1")
        with page.expect_request("**/scripts/*/runs") as sent:
            dialog.get_by_role("button", name="Start run").click()
        # It ends before its first step, and the dialog says what it printed.
        expect(dialog.get_by_role("alert")).to_contain_text("nothing to train")
    [script_id] = server.scripts
    assert sent.value.url.endswith(f"/api/v1/scripts/{script_id}/runs")
    assert json.loads(sent.value.post_data or "").keys() == {"id", "paused"}
