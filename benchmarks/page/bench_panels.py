"""The debugger's panels at their largest: a matrix of 2,048 rows and a table of 100,000."""

from __future__ import annotations

import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.demo_process import BROWSER_FLAGS, find_chromium

from benchmarks.figures import Figure, percentile

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["figures"]

ROWS = 100_000
SIDE = 2_048
FRAME_MS = 33.0
"""A drag or a scroll is fluid at 30 frames a second."""
PATIENCE_MS = 120_000

# One event, then the time until the next frame is on the screen.
EACH_FRAME = """async ([selector, kind, events]) => {
  const element = document.querySelector(selector);
  const box = element.getBoundingClientRect();
  const frame = () => new Promise(requestAnimationFrame);
  const waits = [];
  for (let index = 0; index < events; index += 1) {
    await frame();
    const begun = performance.now();
    const at = { bubbles: true, cancelable: true, pointerId: 1,
      clientX: box.left + 20 + (index * 7) % 200, clientY: box.top + 20 + (index * 11) % 200 };
    const deltaY = index % 16 < 8 ? -100 : 100;
    if (kind === 'wheel') element.dispatchEvent(new WheelEvent('wheel', { ...at, deltaY }));
    if (kind === 'move') element.dispatchEvent(new PointerEvent('pointermove', at));
    if (kind === 'scroll') element.scrollTop = (index * 7919 * 24) % element.scrollHeight;
    await frame();
    await new Promise((done) => setTimeout(done));
    waits.push(performance.now() - begun);
  }
  return waits;
}"""
CLICK_TO_FRAME = """async (button) => {
  const begun = performance.now();
  button.click();
  await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
  return performance.now() - begun;
}"""


def large_panels(events: int = 60) -> list[Figure]:
    """Milliseconds a frame while one zooms, hovers, scrolls and sorts."""
    chromium = find_chromium()
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    with _served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE_MS)
        found = [*_matrix(page, url, events), *_table(page, url, events)]
        browser.close()
    return found


def _matrix(page: Page, url: str, events: int) -> list[Figure]:
    page.goto(url.replace("/#", "/live?tab=features&compare=off#"))
    page.get_by_role("button", name="Step", exact=True).first.click()
    page.get_by_role("button", name="Load all").click()
    page.get_by_text("block means").wait_for(state="detached")
    canvas = "[data-matrix=left] canvas"
    return [
        _figure(
            f"matrix of {SIDE:,}²: {word}, a frame, p95 (browser)",
            page.evaluate(EACH_FRAME, [canvas, kind, events]),
        )
        for word, kind in (("zoom", "wheel"), ("hover", "move"))
    ]


def _table(page: Page, url: str, events: int) -> list[Figure]:
    page.goto(url.replace("/#", "/live?tab=panels&panel=rows#"))
    page.get_by_role("button", name="Step", exact=True).first.click()
    table = page.get_by_role("grid", name="Rows")
    table.get_by_role("columnheader", name="Third").wait_for()
    waits = page.evaluate(EACH_FRAME, ["[role=grid][aria-label=Rows]", "scroll", events])
    heads = [table.get_by_role("columnheader", name=name) for name in ("First", "Second", "Third")]
    sorts = [
        float(head.get_by_role("button").evaluate(CLICK_TO_FRAME)) for head in heads for _ in "ab"
    ]
    return [
        _figure(f"table of {ROWS:,} rows: scroll, a frame, p95 (browser)", waits),
        Figure(
            name=f"table of {ROWS:,} rows: sort by a column, median (browser)",
            value=statistics.median(sorts),
            unit="ms",
            low=min(sorts),
            high=max(sorts),
        ),
    ]


def _figure(name: str, waits: list[float]) -> Figure:
    return Figure(
        name=name,
        value=percentile(waits, 0.95),
        unit="ms",
        low=min(waits),
        high=max(waits),
        bar=FRAME_MS,
        note=f"median {statistics.median(waits):.3g} ms",
    )


@contextmanager
def _served() -> Iterator[str]:
    """A loop whose steps move a weight of 2,048 rows and push 100,000 rows of metrics."""
    from midstep.control import DebugController
    from midstep.live import serve
    from midstep.session import Run

    controller = DebugController()
    controller.pause()
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="large", save_dir=Path(folder), controller=controller, total_steps=1000) as run,
        serve(run, port=0) as page,
    ):
        thread = threading.Thread(target=_train, args=(controller,), name="training")
        thread.start()
        try:
            yield str(page.url)
        finally:
            controller.stop()
            thread.join(60)


def _train(controller: Any) -> None:
    import torch

    from midstep.control import Field, Panel

    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(SIDE, 64, generator=generator)
    names = {"a": "First", "b": "Second", "c": "Third"}
    panel = Panel(
        kind="table",
        title="Rows",
        fields={name: Field(label=label) for name, label in names.items()},
    )
    controller.watches.add_source("weight", lambda: weight, default=True)
    going_on = controller.boundary.enter()
    for step in range(1000):
        if not going_on:
            return
        weight += 0.01 * torch.randn(SIDE, 64, generator=generator)
        controller.capture_batch(weight[:4], torch.tensor(1.0), step)
        columns = {name: torch.randn(ROWS, generator=generator) for name in names}
        controller.capture_step_data("rows", columns, panel=panel)
        going_on = controller.wait_if_paused()


def figures() -> list[Figure]:
    """All figures of this module."""
    return large_panels()
