"""Writes the reference pages of commands and routes: `python -m tools.references`.

Commands come from the parser of the terminal, routes from the OpenAPI document. With `--check`
nothing is written; the exit code is 1 if a page differs from what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.references import cli_page, http_page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them; returns the exit code."""
    stale = 0
    for name, text in {"cli.md": cli_page.page(), "http.md": http_page.page()}.items():
        path = FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" in arguments:
            message = f"docs/reference/{name} differs from the code; run: make types"
            print(f"midstep: {message}", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
