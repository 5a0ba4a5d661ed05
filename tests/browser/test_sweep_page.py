"""Runs › Sweeps: a sweep as a grid of cells, walked with the arrows, with effects and actions."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Page, expect

from midstep.loops.sweep.cell_states import list_cells
from midstep.loops.sweep.plan import read_plan
from midstep.server.root_server import RootServer, RootServerConfig
from midstep.server.sweeps.sweep_pool import SweepPool, hold_sweep
from tests.browser.test_accessibility import assert_nothing_serious
from tests.tiny_sweep import options, plan_of, sweep_in

WAIT_S = 60.0
pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two levels × three seeds: one cell failed, one is missing."""
    plan = plan_of(["level=1,2", "seed=0,1,2"], cells={4: {"error_at": 5}}, steps=6)
    folder = sweep_in(tmp_path_factory.mktemp("sweep"), plan)
    with hold_sweep(folder):
        SweepPool(folder, options(), on_change=lambda what, cell: None).run()
    shutil.rmtree(folder / plan.jobs[5].run_dir)
    return folder


@pytest.fixture(scope="module")
def root(folder: Path) -> Iterator[RootServer]:
    with RootServer(RootServerConfig(outputs=folder.parents[1], port=0)) as server:
        yield server


def open_sweeps(page: Page, url: str) -> None:
    base, _, token = url.partition("/#")
    page.goto(f"{base}/runs#{token}")
    page.get_by_role("tab", name="Sweeps").click()
    expect(page.get_by_role("table", name="Cells of the sweep")).to_be_visible()


def test_a_sweep_is_walked_read_and_its_open_cells_are_offered(
    page: Page, root: RootServer, folder: Path
) -> None:
    open_sweeps(page, root.url)
    cells = page.get_by_role("region", name="Cells")
    expect(cells.get_by_text("4 of 6 finished")).to_be_visible()
    expect(page.get_by_role("button", name="Run 1 open cell")).to_be_enabled()
    expect(page.get_by_role("status").get_by_text("Cell 4 failed at 83 %")).to_be_visible()

    page.get_by_role("button", name="level 1, seed 0: finished 1.000").click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="level 2, seed 1: Failed 83 %")).to_be_focused()
    card = page.get_by_role("region", name="Cell 4")
    expect(card.get_by_text("ValueError: bad batch")).to_be_visible()
    expect(card.get_by_role("button", name="Run again")).to_be_enabled()

    # What the page says of effects is what the cells say.
    values = {cell.job: cell.values for cell in list_cells(folder, read_plan(folder))}
    mean = values[3]["best_val_loss"] - values[0]["best_val_loss"]
    effects = page.get_by_role("region", name="Effect of each axis")
    text = effects.get_by_role("img").get_attribute("aria-label") or ""
    assert f"level 2 against 1: +{mean:.2f}" in text, text
    expect(cells.get_by_text("too few to rank").first).to_be_visible()

    assert_nothing_serious(page)
    cells.get_by_role("radio", name="Table").click()
    table = cells.get_by_role("table", name="Cells of the sweep")
    expect(table.get_by_role("cell", name="failed, 83 %")).to_be_visible()
    assert "cells=table" in page.url
    assert_nothing_serious(page)


def test_a_running_cell_is_stopped_and_the_others_continue(page: Page, tmp_path: Path) -> None:
    # The first cell makes steps until it is stopped; then the pool takes the second.
    endless = {"steps": 1_000_000, "step_s": 0.05}
    plan = plan_of(["level=1", "seed=0,1"], cells={0: endless}, steps=6)
    folder = sweep_in(tmp_path, plan)
    with hold_sweep(folder), RootServer(RootServerConfig(outputs=tmp_path, port=0)) as server:
        pool = SweepPool(folder, options(jobs=1), on_change=lambda what, cell: None)
        thread = Thread(target=pool.run)
        thread.start()
        try:
            open_sweeps(page, server.url)
            page.get_by_role("button", name=re.compile("seed 0: running")).click()
            page.get_by_role("region", name="Cell 0").get_by_role(
                "button", name="Stop cell"
            ).click()
            thread.join(WAIT_S)
            assert [cell.state for cell in list_cells(folder, read_plan(folder))] == [
                "stopped",
                "finished",
            ]
            expect(page.get_by_text("1 at a time")).to_be_visible()
            card = page.get_by_role("region", name="Cell 0")
            expect(card.get_by_text("stopped").first).to_be_visible(timeout=20_000)
        finally:
            pool.request_stop()
            thread.join(WAIT_S)
        page.goto("about:blank")


def test_a_viewer_sees_it_and_may_start_nothing(page: Page, root: RootServer) -> None:
    open_sweeps(page, root.viewer_url)
    run = page.get_by_role("button", name="Run 1 open cell")
    expect(run).to_have_attribute("aria-disabled", "true")


def test_without_sweeps_it_says_how_to_start_one(page: Page, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with RootServer(RootServerConfig(outputs=tmp_path / "empty", port=0)) as server:
        base, _, token = server.url.partition("/#")
        page.goto(f"{base}/runs?tab=sweeps#{token}")
        expect(page.get_by_text("No sweeps yet")).to_be_visible()
        expect(page.get_by_text("midstep train -m loop=mlp trainer.seed=0,1,2")).to_be_visible()
