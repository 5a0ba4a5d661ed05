"""What mkdocs does beside its own work: pages of Python names, and pictures in both themes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # mkdocs loads this file by its path

from mkdocs.structure.files import File
from tools.references import python_pages


def on_files(files: Any, config: Any) -> Any:
    """Called by mkdocs once it has listed the files of `docs`."""
    for path, text in python_pages.pages().items():
        files.append(File.generated(config, f"reference/{path}", content=text))
    return files


def on_page_markdown(markdown: str, **_of_mkdocs: Any) -> str:
    """Show a picture `…-light.png` in its dark form to readers of the dark theme.

    Pages name only the light form, so that they look right in the repository too.
    """
    return re.sub(
        r"!\[([^\]]*)\]\(([^)]*)-light\.(png|gif)\)",
        r"![\1](\2-light.\3#only-light) ![\1](\2-dark.\3#only-dark)",
        markdown,
    )
