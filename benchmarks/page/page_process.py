"""A process that subscribes and reads as an open page does, switched on and off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def polling(url: str, tab: str, condition: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that asks, as a browser is one."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.page.page_requests", url, tab, condition],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
    finally:
        child.kill()
        child.wait()


def tell(child: subprocess.Popen[str], word: str) -> None:
    """Switch the asking on or off, and wait until it is."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{word}\n")
    child.stdin.flush()
    answered = child.stdout.readline().strip()
    assert answered == word, "the process that asks has ended; what it wrote says why"


def count_captures(child: subprocess.Popen[str]) -> int:
    """Capture messages that the process has received so far."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("captures\n")
    child.stdin.flush()
    return int(child.stdout.readline())
