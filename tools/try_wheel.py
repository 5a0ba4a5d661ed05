"""Serve a page with the installed midstep and fetch it: run it with the Python that has the wheel.

It prints where midstep is installed and what came of the page, and ends with code 1 if that was
not the page.
"""

from __future__ import annotations

import sys
import tempfile
import urllib.request
from pathlib import Path

import midstep

WANTED = b'<div id="root">'


def main() -> int:
    """Serve, fetch, and return the exit code."""
    with (
        tempfile.TemporaryDirectory() as folder,
        midstep.serve(midstep.DebugController(), port=0, save_dir=folder) as page,
        urllib.request.urlopen(page.url.partition("#")[0]) as answer,  # noqa: S310 our own server
    ):
        is_page = WANTED in answer.read()
    print(Path(midstep.__file__).parent)
    print(answer.status, "the page" if is_page else "not the page")
    return 0 if is_page else 1


if __name__ == "__main__":
    sys.exit(main())
