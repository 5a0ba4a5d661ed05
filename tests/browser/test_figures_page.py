"""What a run drew and profiled: the tabs Figures and Files of its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from midstep.core.ids import new_run_id
from midstep.facts import FactsWriter
from midstep.loops import compose
from midstep.loops.composed.loop_training import RunLocation, train_loop
from midstep.monitoring import FigureSession, LoggingConfig, PlotFamily, register_family
from midstep.monitoring.family_registry import unregister_family
from midstep.server.root_server import RootServer, RootServerConfig
from tests.monitoring.drawn_runs import epoch_record

pytestmark = pytest.mark.browser
CONFIG = LoggingConfig(moments=("on_epoch_end", "on_train_end"), dpi=40)


def fails(*_: object) -> list[object]:
    raise RuntimeError("no samples")


@pytest.fixture
def failing_family() -> Iterator[str]:
    """A family that raises."""
    register_family(PlotFamily(name="broken", handle=fails))  # type: ignore[arg-type]
    yield "broken"
    unregister_family("broken")


def test_figures_appear_while_a_run_trains_and_stay_afterwards(
    page: Page, tmp_path: Path, failing_family: str
) -> None:
    run_id, families = new_run_id(), ("losses", failing_family)
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as server:
        with FactsWriter(tmp_path / "runs" / "trains", run_id=run_id) as facts:
            facts.event("on_start", name="trains")
            token = server.tokens.now.control
            page.goto(f"{server.base}/runs/{run_id}?tab=figures#token={token}")
            panel = page.get_by_role("region", name="Figures")
            expect(panel).to_contain_text("No figures yet")
            config = replace(CONFIG, families=families)
            with FigureSession(
                facts.run_dir, config, families, facts.event, share=100.0
            ) as session:
                facts.event("on_epoch_end", **epoch_record(0))
                session.on_epoch_end()
                tile = panel.get_by_role("button", name="losses after epoch 0")
                expect(tile.locator("img")).to_be_visible(timeout=20_000)
                expect(panel).to_contain_text("Figures of broken failed: RuntimeError: no samples")
                facts.event("on_epoch_end", **epoch_record(1))
            facts.event("on_train_end", status="finished")
        newest = panel.get_by_role("button", name="losses after epoch 1")
        expect(newest).to_be_visible(timeout=20_000)
        # The newest of the family replaces the tile; the arrows walk through the others.
        expect(panel.get_by_role("button", name="losses after")).to_have_count(1)
        newest.focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("img")).to_be_visible()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
        expect(dialog.get_by_role("heading")).to_have_text("losses after epoch 0")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        panel.get_by_role("radio", name="All").click()
        expect(panel.locator("img")).to_have_count(3)
        page.goto("about:blank")


def test_the_profile_of_a_run_is_a_table_among_its_files(page: Page, tmp_path: Path) -> None:
    quiet = ("loop=mlp", "trainer.epochs=1", "logging.make_plots=false")
    composed = compose([*quiet, "trainer.profile=steps"])
    location = RunLocation.from_settings(composed, save_dir=tmp_path / "runs")
    run_id = train_loop(composed, location=location)["run_id"]
    with RootServer(RootServerConfig(outputs=tmp_path, port=0)) as server:
        token = server.tokens.now.control
        page.goto(f"{server.base}/runs/{run_id}?tab=files#token={token}")
        panel = page.get_by_role("region", name="Profile")
        expect(panel).to_contain_text("5 steps from step 4")
        table = panel.get_by_role("table", name="Slowest operations")
        row = table.get_by_role("row").filter(has_text="aten::addmm").first
        expect(row).to_be_visible()
        # No column of a GPU that was not there; each head sorts.
        expect(table.get_by_role("columnheader")).to_have_count(4)
        table.get_by_role("button", name="Calls").click()
        expect(table.get_by_role("columnheader", name="Calls")).to_have_attribute(
            "aria-sort", "descending"
        )
        expect(page.get_by_role("region", name="Files")).to_contain_text("artifacts/profile.json")
        page.goto("about:blank")
