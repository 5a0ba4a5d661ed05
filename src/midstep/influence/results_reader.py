"""Finished results as plain data; needs neither torch nor numpy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError

__all__ = ["FORMAT", "read_results_json"]

FORMAT = "midstep.influence/1"


def read_results_json(directory: str | os.PathLike[str]) -> dict[str, Any]:
    """The results of a finished run."""
    file = Path(directory) / "results.json"
    try:
        told = strict_json.loads(file.read_bytes())
    except OSError as error:
        raise StorageError(
            f"cannot read {file}: {error.strerror}; give the folder of a finished run, or start "
            "the same plan again to finish it"
        ) from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise FormatError(f"{file} holds no results of format {FORMAT}")
    return told
