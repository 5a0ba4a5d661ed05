"""A table of 100,000 rows: keys reach every row, and only the rows that are seen are drawn."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

from midstep.control import DebugController, Field, Panel
from midstep.live import serve
from midstep.session import Run

pytestmark = pytest.mark.browser

ROWS = 100_000

# Whether the selected row lies between the head and the summary rows, both of which cover the list.
IS_UNCOVERED = """grid => {
  const box = (element) => element.getBoundingClientRect();
  const row = box(grid.querySelector('[aria-selected=true]'));
  return row.top >= box(grid.firstElementChild).bottom - 1
    && row.bottom <= box(grid.lastElementChild).top + 1;
}"""


def train(controller: DebugController) -> None:
    panel = Panel(kind="table", title="Rows", fields={"value": Field(label="Value")})
    values = torch.arange(ROWS, dtype=torch.float32)
    is_running = controller.boundary.enter()
    step = 0
    while is_running:
        controller.capture_batch(values[:4].view(4, 1), torch.tensor(1.0), step)
        controller.capture_step_data("rows", {"value": values}, panel=panel)
        is_running = controller.wait_if_paused()
        step += 1


@contextmanager
def served(folder: Path) -> Iterator[str]:
    controller = DebugController()
    controller.pause()
    with (
        Run(name="large", save_dir=folder, controller=controller, total_steps=1000) as run,
        serve(run, port=0) as page,
    ):
        thread = threading.Thread(target=train, args=(controller,), name="training")
        thread.start()
        try:
            yield str(page.url)
        finally:
            controller.stop()
            thread.join(60)


def test_keys_reach_every_row_also_on_a_page_at_200_percent(page: Page, tmp_path: Path) -> None:
    with served(tmp_path / "runs") as url:
        page.goto(url.replace("/#", "/live?tab=panels&panel=rows#"))
        page.get_by_role("button", name="Step", exact=True).first.click()
        grid = page.get_by_role("grid", name="Rows")
        expect(grid).to_have_attribute("aria-rowcount", str(ROWS + 1))
        selected = grid.locator("[aria-selected=true]")
        for width, height in ((1280, 720), (640, 360)):
            page.set_viewport_size({"width": width, "height": height})
            grid.focus()
            for key, row in (("End", ROWS), ("ArrowUp", ROWS - 1), ("Home", 1), ("ArrowDown", 2)):
                grid.press(key)
                expect(selected).to_have_attribute("aria-rowindex", str(row + 1))
                assert grid.evaluate(IS_UNCOVERED), (width, key)
            grid.press("PageDown")
            assert grid.evaluate(IS_UNCOVERED), (width, "PageDown")
            assert grid.locator("[role=row][id]").count() < 100
