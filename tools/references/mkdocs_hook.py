"""Adds the pages of public Python names to the documentation while mkdocs builds it."""

from __future__ import annotations

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
