"""A demo in a process of its own, and a real browser looking at it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from midstep.client import Client
from midstep.facts import FactsReader

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
PATIENCE_S = 60.0


@dataclass
class Demo:
    """A running demo: its page, its client, its facts."""

    process: subprocess.Popen[bytes]
    url: str
    folder: Path

    @property
    def client(self) -> Client:
        base, _, token = self.url.partition("/#token=")
        return Client(base, token=token)

    @property
    def run_dir(self) -> Path:
        (found,) = (self.folder / "runs").iterdir()
        return found

    def interventions(self) -> list[dict[str, Any]]:
        events = FactsReader(self.run_dir).events()
        return [event for event in events if event["moment"] == "on_intervention"]


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    """Start demos; they are stopped when the test ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> Demo:
        output = tmp_path / f"demo-{len(started)}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "midstep.cli", "demo", "--port", "0",
                 "--save-dir", str(tmp_path / "runs"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        started.append(process)
        return Demo(process, _address(process, output), tmp_path)

    yield start
    for process in started:
        process.terminate()
        process.wait(PATIENCE_S)


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    """The page's address, from what the demo prints."""
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"http://\S+#token=\S+", output.read_text()):
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"the demo printed no address: {output.read_text()}")


@pytest.fixture
def browser(chromium: str, tmp_path: Path) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of the size the design is drawn for; an error in its script fails the test."""
    errors: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True)
    made = context.new_page()
    made.set_default_timeout(PATIENCE_S * 1000 / 2)
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    context.close()
    assert errors == []
