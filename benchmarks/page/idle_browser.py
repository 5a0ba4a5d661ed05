"""Chromium as people have it open: nobody attached, and not as root.

A debugger that hears of every request has a cost of its own, and root's browser puts its threads
before everybody else's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

__all__ = ["IdleBrowser", "browser"]

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--remote-debugging-port=0",
    "--window-size=1280,720",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
START_S = 30.0


class IdleBrowser:
    """Tabs are opened and closed over its debugging address; between that, it is left alone."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._tab: str | None = None

    def open(self, url: str) -> None:
        """Show a page."""
        self._tab = str(json.loads(self._ask("PUT", f"new?{quote(url, safe='')}"))["id"])

    def close(self) -> None:
        """Close the page that is shown."""
        assert self._tab is not None
        self._ask("GET", f"close/{self._tab}")
        self._tab = None

    def _ask(self, method: str, what: str) -> bytes:
        with urlopen(Request(f"{self._address}/json/{what}", method=method)) as answer:
            return bytes(answer.read())


@contextmanager
def browser(chromium: str) -> Iterator[IdleBrowser]:
    """A browser with an empty tab, until the block ends."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        told = Path(profile, "DevToolsActivePort")
        user = "nobody" if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(profile, user)
        child = subprocess.Popen(
            [chromium, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": profile},
            user=user,
        )
        try:
            latest = time.monotonic() + START_S
            while not (told.exists() and "\n" in told.read_text()):
                assert child.poll() is None, "Chromium ended at once"
                assert time.monotonic() < latest, "Chromium did not tell its address"
                time.sleep(0.1)
            yield IdleBrowser(f"http://127.0.0.1:{told.read_text().split()[0]}")
        finally:
            child.terminate()
            child.wait()
