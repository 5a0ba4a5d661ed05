"""The panels of two conditions, parked after a thousand steps, for the study's page."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tools.demo_process import BROWSER_FLAGS, running_demo
from tools.picture_files import save_png

from midstep.client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
STEP = 1000
WATCHED = (3, 17, 29, 42, 58)


def main() -> None:
    """One picture of the Features tab for each condition, into `--folder`."""
    asked = argparse.ArgumentParser(
        prog="studies.competitive.panel_screenshots", description=main.__doc__
    )
    asked.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    folder = asked.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("midstep: chromium was not found; install it with: sudo apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        for condition in ("novelty", "balance"):
            _picture(browser, condition, folder / f"study-{condition}.png")
        browser.close()


def _picture(browser: Browser, condition: str, target: Path) -> None:
    arguments = ("--condition", condition, "--port", "0", "--start-paused")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_demo(Path(folder), *arguments) as url,
    ):
        base, _, token = url.partition("/#token=")
        client = Client(base, token=token)
        client.watches.replace(*WATCHED)
        page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
        page.goto(url.replace("/#", f"/live?tab=features&feature={WATCHED[1]}#"))
        client.run_until(STEP)
        page.locator(f"[data-step='{STEP}']").first.wait_for(timeout=120_000)
        page.wait_for_timeout(1500)
        save_png(page.screenshot(), target)
        page.close()


if __name__ == "__main__":
    main()
