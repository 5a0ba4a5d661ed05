"""Charts at their largest: 200 of 1,000 points, and one of a million, scrolled, hovered, zoomed."""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.demo_process import BROWSER_FLAGS, find_chromium

from benchmarks.figures import Figure, percentile

__all__ = ["figures"]

CHARTS = 200
STEPS = 1_000
POINTS = 1_000_000
FRAME_MS = 33.0
"""A scroll or a move of the pointer is fluid at 30 frames a second."""
PATIENCE_MS = 120_000

# One event, then the time until the next frame is on the screen with what the event led to.
EACH_FRAME = """async ([selector, kind, events]) => {
  const chart = document.querySelector(selector);
  const scroller = chart.closest('[data-chart]')?.parentElement;
  const frame = () => new Promise(requestAnimationFrame);
  const waits = [];
  if (scroller) scroller.scrollTop = 0;
  await new Promise((done) => setTimeout(done, 500));
  const box = chart.getBoundingClientRect();
  for (let index = 0; index < events; index += 1) {
    await frame();
    const begun = performance.now();
    const at = { bubbles: true, cancelable: true, pointerId: 1,
      clientX: box.left + 50 + (index * 7) % 200, clientY: box.top + 40 };
    if (kind === 'move') chart.dispatchEvent(new PointerEvent('pointermove', at));
    if (kind === 'scroll') scroller.scrollTop += 90;
    if (kind === 'zoom') {
      const key = index % 8 < 4 ? '+' : '-';
      chart.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, key }));
    }
    await frame();
    await new Promise((done) => setTimeout(done));
    waits.push(performance.now() - begun);
  }
  return waits;
}"""
WORDS = {"scroll": "scroll", "move": "shared cursor", "zoom": "zoom of all"}


def many_charts(events: int = 60) -> list[Figure]:
    """Milliseconds a frame while one scrolls, hovers and zooms."""
    chromium = find_chromium()
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    with _served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url.replace("/#", "/live?tab=charts#"))
        page.get_by_role("tab", name=f"Charts {CHARTS}").wait_for()
        page.locator("[data-chart] [role=img] canvas").first.wait_for()
        first = "[data-chart] [role=img]"
        waits = {kind: page.evaluate(EACH_FRAME, [first, kind, events]) for kind in WORDS}
        browser.close()
    name = f"{CHARTS} charts of {STEPS:,} points"
    return [_figure(f"{name}: {WORDS[kind]}", each) for kind, each in waits.items()]


def long_chart(events: int = 60) -> list[Figure]:
    """Milliseconds a frame while one hovers and zooms the loss of a million steps."""
    chromium = find_chromium()
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    with _long_run() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        page.get_by_role("img", name=f"loss over steps: {POINTS:,} points").wait_for()
        loss = "[role=img][aria-label^='loss over steps']"
        words = {"move": "pointer", "zoom": "zoom"}
        waits = {kind: page.evaluate(EACH_FRAME, [loss, kind, events]) for kind in words}
        browser.close()
    name = f"chart of {POINTS:,} points"
    return [_figure(f"{name}: {words[kind]}", each) for kind, each in waits.items()]


def _figure(name: str, waits: list[float]) -> Figure:
    return Figure(
        name=f"{name}, a frame, p95 (browser)",
        value=percentile(waits, 0.95),
        unit="ms",
        low=min(waits),
        high=max(waits),
        bar=FRAME_MS,
        note=f"median {statistics.median(waits):.3g} ms",
    )


@contextmanager
def _long_run() -> Iterator[str]:
    """A paused run that has logged its loss a million times."""
    from midstep.control import DebugController
    from midstep.live import serve
    from midstep.session import Run

    controller, noise = DebugController(), random.Random(0)
    controller.pause()
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="long", save_dir=Path(folder), controller=controller) as run,
    ):
        for step in range(1, POINTS + 1):
            run.facts.log(step, loss=noise.random())
        run.facts.sync()
        with serve(run, port=0) as page:
            yield str(page.url)


@contextmanager
def _served() -> Iterator[str]:
    """A paused loop that has logged 200 scalars at each of 1,000 steps."""
    from midstep.control import DebugController
    from midstep.live import serve
    from midstep.session import Run

    controller = DebugController()
    logged = threading.Event()
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="charts", save_dir=Path(folder), controller=controller) as run,
        serve(run, port=0) as page,
    ):
        thread = threading.Thread(target=_train, args=(run, controller, logged), name="training")
        thread.start()
        try:
            logged.wait()
            yield str(page.url)
        finally:
            controller.stop()
            thread.join(60)


def _train(run: Any, controller: Any, logged: threading.Event) -> None:
    noise = random.Random(0)
    names = [f"layer{index}.norm" for index in range(CHARTS)]
    going_on = controller.boundary.enter()
    for step in range(STEPS):
        if not going_on:
            break
        run.log(**{name: 1 + noise.random() + step / STEPS for name in names})
        if step == STEPS - 1:
            controller.pause()
            logged.set()
        going_on = controller.wait_if_paused()
    logged.set()


def figures() -> list[Figure]:
    """All figures of this module."""
    return [*many_charts(), *long_chart()]
