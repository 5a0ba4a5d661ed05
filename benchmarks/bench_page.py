"""The page in a real browser: from a click on Step to the new picture."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, percentile

__all__ = ["figures"]

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
CLICK_TO_PICTURE = """async () => {
  const canvas = document.querySelector('section canvas');
  const button = [...document.querySelectorAll('button')].find((b) => b.innerText.startsWith('Step'));
  const before = canvas.toDataURL();
  const begun = performance.now();
  button.click();
  while (canvas.toDataURL() === before) await new Promise(requestAnimationFrame);
  return performance.now() - begun;
}"""


def step_click_to_picture(clicks: int = 40) -> list[Figure]:
    """Milliseconds from the click to other pixels in the batch grid."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium was not found; install it with: sudo apt-get install chromium")
        return []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "demo.log")
        with log.open("wb") as output:
            demo = subprocess.Popen(
                [sys.executable, "-m", "midstep.cli", "demo", "--start-paused", "--port", "0",
                 "--save-dir", folder],
                stdin=subprocess.DEVNULL, stdout=output, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        try:
            waits = _click(chromium, _address(log), clicks)
        finally:
            demo.terminate()
            demo.wait(60)
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
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
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


def _address(log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if found := re.search(r"http://\S+#token=\S+", log.read_text()):
            return found[0]
        time.sleep(0.05)
    raise RuntimeError(f"the demo printed no address: {log.read_text()}")


def figures() -> list[Figure]:
    """All figures of this module."""
    return step_click_to_picture()
