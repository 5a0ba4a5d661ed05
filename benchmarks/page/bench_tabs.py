"""Closing the tab that reads the stream for all tabs: until another one shows the run's step."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import torch
from tools.demo_process import BROWSER_FLAGS, find_chromium

from benchmarks.figures import Figure, percentile
from benchmarks.page.bench_forces import training
from midstep.live import serve
from midstep.session import Run

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

__all__ = ["figures"]

TIMES = 40
BAR_S = 2.0
SHOWS_STEP_ABOVE = """step => {
  const shown = /Step\\s*([\\d,]+)/.exec(document.querySelector("header").innerText);
  return shown !== null && Number(shown[1].replaceAll(",", "")) > step;
}"""


def tab_handover(times: int = TIMES) -> list[Figure]:
    """Seconds from closing the leading tab at a random instant of a training."""
    chromium = find_chromium()
    if chromium is None:
        return []
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(name="tabs", save_dir=folder) as run,
        serve(run, port=0, save_dir=folder) as served,
        training(run, "novelty"),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        waits = _close_tabs(context, str(served.url), run, times)
        browser.close()
    return [
        Figure(
            name="the leading tab is closed: until another shows the run's step, p95 (browser)",
            value=percentile(waits, 0.95),
            unit="s",
            low=min(waits),
            high=max(waits),
            bar=BAR_S,
            note=f"median {statistics.median(waits):.2g} s, {times} times",
        )
    ]


def _close_tabs(context: BrowserContext, url: str, run: Run, times: int) -> list[float]:
    chance, waits = random.Random(0), []
    leading = _open_tab(context, url)
    for _ in range(times):
        follower = _open_tab(context, url)
        follower.wait_for_timeout(chance.uniform(0, 500))
        closed_at = time.monotonic()
        leading.close()
        # A step that was made after the closing: no message of the closed tab can hold it.
        follower.wait_for_function(SHOWS_STEP_ABOVE, arg=run.step)
        waits.append(time.monotonic() - closed_at)
        leading = follower
    return waits


def _open_tab(context: BrowserContext, url: str) -> Page:
    tab = context.new_page()
    tab.goto(url)
    tab.get_by_role("button", name="Connection: Live").wait_for()
    return tab


def figures() -> list[Figure]:
    """All figures of this module."""
    return tab_handover()
