"""The page in a real browser: from a click on Step to the new picture."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from tools.demo_process import BROWSER_FLAGS, find_chromium, running_demo

from benchmarks.figures import Figure, percentile

__all__ = ["figures"]

CLICK_TO_PICTURE = """async () => {
  const canvas = document.querySelector('section canvas');
  const button = [...document.querySelectorAll('button')]
    .find((each) => each.innerText.startsWith('Step'));
  const before = canvas.toDataURL();
  const begun = performance.now();
  button.click();
  while (canvas.toDataURL() === before) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def step_click_to_picture(clicks: int = 40) -> list[Figure]:
    """Milliseconds from the click to other pixels in the batch grid."""
    chromium = find_chromium()
    if chromium is None:
        return []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_demo(Path(folder), "--start-paused", "--port", "0") as url,
    ):
        waits = _click(chromium, url, clicks)
    return [
        Figure(
            name="step click to picture, p95 (browser)",
            value=percentile(waits, 0.95),
            unit="ms",
            low=min(waits),
            high=max(waits),
            note=f"median {statistics.median(waits):.3g} ms",
        )
    ]


def _click(chromium: str, url: str, clicks: int) -> list[float]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(url)
        page.get_by_role("button", name="Step", exact=True).first.click()
        page.locator("section canvas").first.wait_for()
        page.wait_for_timeout(500)
        waits = []
        for _ in range(clicks):
            waits.append(float(page.evaluate(CLICK_TO_PICTURE)))
            page.wait_for_timeout(100)
        browser.close()
    return waits


def figures() -> list[Figure]:
    """All figures of this module."""
    return step_click_to_picture()
