"""A demo in a process of its own, and a real browser looking at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tools.demo_process import BROWSER_FLAGS, running_demo

from midstep.client import Client
from midstep.facts import FactsReader

PATIENCE_S = 60.0
PATIENCE_MS = PATIENCE_S * 1000
OWN = ("http://127.0.0.1:", "blob:", "data:")

# What is waited for comes at once on a quiet machine; five seconds are little on a busy one.
expect.set_options(timeout=PATIENCE_MS)


Records = list[dict[str, Any]]


@dataclass
class Demo:
    """A running demo: its page, its client, its facts."""

    url: str
    save_dir: Path

    @property
    def client(self) -> Client:
        base, _, token = self.url.partition("/#token=")
        return Client(base, token=token)

    def interventions(self, are_there: Callable[[Records], bool]) -> Records:
        """Those on record, once the wanted ones are: the page may hear of them before the disk."""
        (run_dir,) = self.save_dir.glob("run_*")
        deadline = time.monotonic() + PATIENCE_S
        while True:
            events = FactsReader(run_dir).events()
            found = [event for event in events if event["moment"] == "on_intervention"]
            if are_there(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo that stands before its first step."""
    save_dir = tmp_path / "runs"
    with running_demo(save_dir, "--port", "0", "--start-paused", "--steps", "100000") as url:
        yield Demo(url, save_dir)


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    """One browser for all tests of this package; each test has a context of its own.

    Not for the whole session: as long as Playwright runs, `asyncio.run` is refused here.
    """
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=BROWSER_FLAGS)
        yield made
        made.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the size the design is drawn for.

    An error in its script fails the test, and so does a request to anywhere but loopback: the
    page works with the network closed.
    """
    errors: list[str] = []
    asked: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True)
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("request", lambda request: asked.append(request.url))
    yield made
    context.close()
    assert browser.contexts == []  # the next test gets the browser as it was
    assert errors == []
    assert [url for url in asked if not url.startswith(OWN)] == []
