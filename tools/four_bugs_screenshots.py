"""Pictures of the tutorial `four-bugs.md`: `python tools/four_bugs_screenshots.py`.

Each script runs to its stop, and the page is taken as it opens, light and dark.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started as a script, it finds its neighbour

from playwright.sync_api import Browser, sync_playwright  # noqa: E402 - after the path is set
from tools.demo_process import BROWSER_FLAGS, find_chromium  # noqa: E402
from tools.picture_files import save_png  # noqa: E402

PATIENCE_S = 300.0
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
PICTURES: tuple[tuple[str, str, str], ...] = (
    ("rate_jump", "Loss rose", ""),
    ("dead_relu", "Dead ReLUs.", ""),
    ("nan_sample", "First non-finite", ""),
    ("wrong_labels", "Stopped by", "?sort=loss"),
)
"""Script, words of the stop, and the view."""


def main() -> None:
    """Take each picture."""
    chromium = find_chromium()
    if chromium is None:
        sys.exit(1)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        take_all(browser)
        browser.close()


def take_all(browser: Browser) -> None:
    """Run each script to its stop, and take its picture."""
    for name, words, view in PICTURES:
        for scheme in SCHEMES:
            with tempfile.TemporaryDirectory() as folder, _running(name, Path(folder)) as url:
                _take(browser, url, name, scheme, words, view)


@contextmanager
def _running(name: str, folder: Path) -> Iterator[str]:
    """The address of a script's page, while the script runs."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / "four_bugs" / f"{name}.py")],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (address := re.search(r"http://\S+#token=\S+", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"no address was printed: {log.read_text()}")
            time.sleep(0.05)
        yield address[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _take(browser: Browser, url: str, name: str, scheme: Scheme, words: str, view: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page.goto(url.replace("/#", f"/live{view}#"))
    page.get_by_role("status").filter(has_text=words).wait_for(timeout=PATIENCE_S * 1000)
    page.get_by_role("grid", name="What changed").wait_for()
    page.wait_for_timeout(1500)
    path = ROOT / "docs" / "images" / f"four-bugs-{name.replace('_', '-')}-{scheme}.png"
    save_png(page.screenshot(), path)
    page.close()


if __name__ == "__main__":
    main()
