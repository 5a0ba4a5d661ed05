"""The Runs page in a real browser: a long list, many curves, many tabs, a run that is killed."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.demo_process import BROWSER_FLAGS, find_chromium, running_demo, running_server

from benchmarks.facts.many_runs import long_runs, run_folders, run_id
from benchmarks.figures import Figure, percentile

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

__all__ = ["figures"]

PATIENCE_MS = 120_000.0
TABS = 10

UNTIL_ROWS = """async () => {
  const row = () => document.querySelector('[role=grid] [role=row][id]');
  while (row() === null) await new Promise(requestAnimationFrame);
  // What is drawn can be used once the main thread is free again.
  await new Promise((done) => setTimeout(done));
  return performance.now();
}"""

BACK_TO_RUNS = """async () => {
  const link = (name) => [...document.querySelectorAll('nav a')]
    .find((each) => each.innerText.trim() === name);
  const rows = () => document.querySelector('[role=grid] [role=row][id]');
  link('Live').click();
  while (rows() !== null) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done, 300));
  const begun = performance.now();
  link('Runs').click();
  while (rows() === null) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
  return performance.now() - begun;
}"""

SORT = """async () => {
  const head = [...document.querySelectorAll('[role=columnheader] button')]
    .find((each) => each.innerText.trim() === 'Run');
  const first = () => document.querySelector('[role=grid] [role=row][id]').id;
  const before = first();
  const begun = performance.now();
  head.click();
  while (first() === before) await new Promise(requestAnimationFrame);
  await new Promise((done) => setTimeout(done));
  return performance.now() - begun;
}"""

FRAMES = """async (moves) => {
  const canvas = document.querySelector('[aria-label=Curves] canvas:last-of-type');
  const box = canvas.getBoundingClientRect();
  const waits = [];
  let last = performance.now();
  for (let move = 0; move < moves; move += 1) {
    const at = { clientX: box.left + 60 + (box.width - 160) * (move / moves),
                 clientY: box.top + box.height * (0.3 + 0.6 * Math.abs(Math.sin(move / 9))) };
    canvas.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, ...at }));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    waits.push(now - last);
    last = now;
  }
  return waits;
}"""


@contextmanager
def browsing(chromium: str) -> Iterator[BrowserContext]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        context.set_default_timeout(PATIENCE_MS)
        yield context
        browser.close()


def _at(url: str, path: str) -> str:
    base, _, token = url.partition("/#")
    return f"{base}{path}#{token}"


def long_list(chromium: str) -> list[Figure]:
    """1,000 runs of 50 epochs: from an empty index and cache, then again, then sorted anew."""
    with tempfile.TemporaryDirectory() as name, browsing(chromium) as context:
        folder = Path(name)
        outputs = run_folders(folder / "outputs")
        with running_server(outputs, folder / "log", "--port", "0") as url:
            page = context.new_page()
            page.goto(_at(url, "/runs"), wait_until="commit")
            cold_ms = float(page.evaluate(UNTIL_ROWS))
            back = [float(page.evaluate(BACK_TO_RUNS)) for _ in range(9)]
            sorts = [float(page.evaluate(SORT)) for _ in range(9)]
            page.reload(wait_until="commit")
            reload_ms = float(page.evaluate(UNTIL_ROWS))
    return [
        Figure(name="Runs page, 1,000 runs, cold", value=cold_ms / 1e3, unit="s", bar=1.0),
        Figure(name="Runs page, 1,000 runs, reloaded", value=reload_ms / 1e3, unit="s"),
        _waits("Runs page, 1,000 runs, opened again", back, 100.0),
        _waits("Runs page, 1,000 runs, sorted", sorts, 100.0),
    ]


def _waits(name: str, waits: list[float], bar: float) -> Figure:
    middle = percentile(waits, 0.5)
    return Figure(name=name, value=middle, unit="ms", low=min(waits), high=max(waits), bar=bar)


def many_curves(chromium: str, runs: int = 50) -> list[Figure]:
    """50 curves of 100,000 points over each other, and a pointer that moves along them."""
    with tempfile.TemporaryDirectory() as name, browsing(chromium) as context:
        folder = Path(name)
        outputs = long_runs(folder / "outputs", runs)
        with running_server(outputs, folder / "log", "--port", "0") as url:
            page = context.new_page()
            chosen = ",".join(run_id(index) for index in range(runs))
            page.goto(_at(url, f"/runs?show={chosen}&measure=loss"), wait_until="commit")
            begun = time.perf_counter()
            page.get_by_role("img", name=f"Loss over step of {runs} runs").wait_for()
            drawn_s = time.perf_counter() - begun
            page.wait_for_timeout(1000)
            frames = page.evaluate(FRAMES, 240)
    return [
        Figure(name=f"{runs} curves of 100,000 points, drawn", value=drawn_s, unit="s"),
        Figure(
            name=f"{runs} curves of 100,000 points, frame under the pointer, p95",
            value=percentile(frames, 0.95),
            unit="ms",
            low=min(frames),
            high=max(frames),
            bar=33.0,
            note="30 frames a second are fluid",
        ),
    ]


def many_tabs(chromium: str) -> list[Figure]:
    """Ten tabs on the Runs page of a folder with one live run: how many streams they read."""
    with tempfile.TemporaryDirectory() as name, browsing(chromium) as context:
        folder = Path(name)
        outputs = folder / "outputs"
        with (
            running_demo(outputs / "runs", "--port", "0", "--start-paused"),
            running_server(outputs, folder / "log", "--port", "0") as url,
        ):
            asked: list[str] = []
            context.on("request", lambda request: asked.append(request.url))
            pages = [_opened(context, _at(url, "/runs")) for _ in range(TABS)]
            pages[-1].wait_for_timeout(1000)
            lists = sum(address.endswith("/api/v1/stream") for address in asked)
            runs = sum("/api/v1/stream?run=" in address for address in asked)
    note = f"{runs} of the live run besides"
    return [Figure(name="streams of the list, 10 tabs", value=lists, unit="", bar=1, note=note)]


def _opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    page.locator("[role=grid] [role=row][id]").first.wait_for()
    return page


def killed_run(chromium: str) -> list[Figure]:
    """From `kill -9` of a run to the word Killed in the list."""
    with tempfile.TemporaryDirectory() as name, browsing(chromium) as context:
        folder = Path(name)
        outputs = folder / "outputs"
        with (
            running_demo(outputs / "runs", "--port", "0", "--steps", "1000000"),
            running_server(outputs, folder / "log", "--port", "0") as url,
        ):
            page = _opened(context, _at(url, "/runs"))
            page.get_by_role("grid").get_by_text("Running").wait_for()
            os.kill(_holder(outputs), signal.SIGKILL)
            begun = time.perf_counter()
            page.get_by_role("grid").get_by_text("Killed").wait_for()
            seen_s = time.perf_counter() - begun
    return [Figure(name="kill -9 to Killed on the page", value=seen_s, unit="s", bar=2.0)]


def _holder(outputs: Path) -> int:
    from midstep.facts.liveness.run_lock import lock_holder

    held = [lock_holder(run_dir) for run_dir in outputs.glob("runs/run_*")]
    return next(pid for pid in held if pid)


def figures() -> list[Figure]:
    """All figures of this module."""
    chromium = find_chromium()
    if chromium is None:
        return []
    parts: tuple[Any, ...] = (long_list, many_curves, many_tabs, killed_run)
    return [figure for part in parts for figure in part(chromium)]
