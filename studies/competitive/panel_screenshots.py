"""The panels of two conditions, parked after a thousand steps, for the study's page."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright
from tools.demo_process import BROWSER_FLAGS, find_chromium, running_demo
from tools.picture_files import save_png

from midstep.client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
STEP = 1000
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
WATCHED = (3, 17, 29, 42, 58)


def main() -> None:
    """Pictures of the Features tab for each condition, light and dark, into `--folder`."""
    asked = argparse.ArgumentParser(
        prog="studies.competitive.panel_screenshots", description=main.__doc__
    )
    asked.add_argument("--folder", type=Path, default=ROOT / "docs" / "images")
    folder = asked.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    chromium = find_chromium()
    if chromium is None:
        sys.exit(2)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        take_all(folder, browser)
        browser.close()


def take_all(folder: Path, browser: Browser) -> None:
    """A picture of each condition in each theme."""
    for condition in ("novelty", "balance"):
        arguments = ("--condition", condition, "--port", "0", "--start-paused")
        with (
            tempfile.TemporaryDirectory() as save_dir,
            running_demo(Path(save_dir), *arguments) as url,
        ):
            base, _, token = url.partition("/#token=")
            client = Client(base, token=token)
            client.watches.replace(*WATCHED)
            pages = [_open(browser, url, scheme) for scheme in SCHEMES]
            client.run_until(STEP)
            for scheme, page in zip(SCHEMES, pages, strict=True):
                page.locator(f"[data-step='{STEP}']").first.wait_for(timeout=120_000)
                page.wait_for_timeout(1500)
                save_png(page.screenshot(), folder / f"study-{condition}-{scheme}.png")
                page.close()


def _open(browser: Browser, url: str, scheme: Scheme) -> Page:
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page.goto(url.replace("/#", f"/live?tab=features&feature={WATCHED[1]}#"))
    return page


if __name__ == "__main__":
    main()
