"""A demo or a server in a process of its own, and the flags of a browser that looks at it.

For the tests, the benchmarks and `make dev`, which all start one the same way.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "BROWSER_FLAGS",
    "CHROMIUM_NAMES",
    "find_chromium",
    "running_demo",
    "running_script",
    "running_server",
]

BROWSER_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_S = 180.0
"""It loads torch, on a machine that may be busy with other things."""


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
"""Debian, older Ubuntu, and the machines of GitHub call it so."""


def find_chromium() -> str | None:
    """Where Chromium or Chrome is; without it, what to do is printed."""
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        print("chromium was not found; install it with: sudo apt-get install chromium")
    return path


@contextmanager
def running_demo(save_dir: Path, *arguments: str) -> Iterator[str]:
    """The address of a demo's page, while it runs; its output is in `save_dir/demo.log`."""
    save_dir.mkdir(parents=True, exist_ok=True)
    command = ["-m", "midstep", "demo", "--save-dir", str(save_dir), *arguments]
    with _running(command, save_dir / "demo.log") as address:
        yield address


@contextmanager
def running_server(outputs: Path, log: Path, *arguments: str) -> Iterator[str]:
    """The address of a page over all runs of `outputs`, while its server runs; it prints to `log`.

    The runs that it starts outlive it: whoever starts some ends them, too.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    command = ["-m", "midstep", "serve", str(outputs), "--no-browser", *arguments]
    with _running(command, log) as address:
        yield address


@contextmanager
def running_script(script: Path, *arguments: str, under: tuple[str, ...] = ()) -> Iterator[str]:
    """The address of the page of a training script, which runs in its own folder and logs there.

    `under` is what Python gets before the script, such as `("-m", "midstep", "run")`.
    """
    log = script.with_suffix(".log")
    with _running([*under, script.name, *arguments], log, folder=script.parent) as address:
        yield address


@contextmanager
def _running(command: list[str], log: Path, *, folder: Path | None = None) -> Iterator[str]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"http://\S+#token=\S+", log.read_text()):
            return found[0]
        time.sleep(0.05)
    raise RuntimeError(f"no address was printed: {log.read_text()}")
