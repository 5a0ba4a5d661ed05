"""Pictures of the page for the README and the docs: `python tools/doc_screenshots.py`.

A real demo runs to a breakpoint, so that the pictures show a paused run with its evidence.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # started as a script, it finds its neighbour

from playwright.sync_api import Browser, sync_playwright  # noqa: E402 - after the path is set
from tools.demo_process import BROWSER_FLAGS, running_demo, running_server  # noqa: E402

from midstep.client import Client  # noqa: E402

STOPS_AT = 1480
WATCHED = (3, 29, 31, 42, 58)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main() -> None:
    """Take a picture in each theme."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("midstep: chromium was not found; install it with: sudo apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        running_demo(Path(folder), "--port", "0", "--start-paused", "--steps", "25000") as url,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        _run_to_a_breakpoint(browser, url)
        for scheme in SCHEMES:
            _take(browser, url, "live", scheme, "")
            _take(browser, url, "features", scheme, f"?tab=features&feature={WATCHED[1]}")
        _take_all_runs(browser, Path(folder) / "outputs")
        browser.close()


def _run_to_a_breakpoint(browser: Browser, url: str) -> None:
    base, _, token = url.partition("/#token=")
    client = Client(base, token=token)
    client.watches.replace(*WATCHED)
    page = browser.new_page()
    page.goto(url)  # what a page watches is captured
    client.breakpoints.add("step", step=400)
    client.breakpoints.add("loss_z", limit=4.0, window=200)
    client.breakpoints.add("grad_norm", limit=10.0)
    client.breakpoints.add("expression", expression=f"loss > 0 and step >= {STOPS_AT}")
    client.resume()
    while client.state()["step"] < STOPS_AT:
        for message in client.stream():
            if message["type"] == "state" and message["state"]["parked"]:
                break
        if client.state()["step"] < STOPS_AT:
            client.resume()
    page.close()


def _take(
    browser: Browser, url: str, name: str, scheme: Literal["light", "dark"], view: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme=scheme)
    page.goto(url.replace("/#", f"/live{view}#"))
    page.get_by_text("Stopped by breakpoint", exact=False).first.wait_for()
    page.locator(f"[data-step='{STOPS_AT}']").first.wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=ROOT / "docs" / "images" / f"{name}-{scheme}.png")
    page.close()


def _take_all_runs(browser: Browser, outputs: Path) -> None:
    """A few finished runs and a live one, over each other."""
    train = ["demo", "--condition", "all", "--steps", "3000", "--no-serve", "--seed", "1"]
    command = [sys.executable, "-m", "midstep", *train, "--seed", "2", "--seed", "3"]
    subprocess.run([*command, "--save-dir", str(outputs / "runs")], check=True)
    with running_server(outputs, outputs / "server.log", "--port", "0") as url:
        client = Client(url)
        live = client.recipes.start("bcl", name="demo-rescue-seed4", condition="rescue", seed=4)
        client.run = live["id"]
        try:
            client.run_until(1800)
            while not client.state()["parked"]:
                time.sleep(0.2)
            for scheme in SCHEMES:
                page = browser.new_page(
                    viewport={"width": 1280, "height": 720}, color_scheme=scheme
                )
                page.goto(url.replace("/#", "/runs?group=config.condition&scale=log#"))
                page.get_by_text("demo-rescue-seed4").first.wait_for()
                page.wait_for_timeout(3000)
                page.screenshot(path=ROOT / "docs" / "images" / f"runs-{scheme}.png")
                page.close()
        finally:
            client.end("kill")


if __name__ == "__main__":
    main()
