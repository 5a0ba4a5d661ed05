"""The folder of one run of a plan: stages that are there as a whole or not at all.

A run that was killed is found again by its plan and checkpoint, and goes on after its last stage.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.folders import remove_temporary_folders
from midstep.core.ids import slug
from midstep.core.storage import make_folder, remove_temporaries, replace_json

__all__ = ["RunFolder"]


class RunFolder:
    """Paths of a run's parts.

    Args:
        path: the run's folder; it is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan_file, self.results_file = path / "plan.json", path / "results.json"
        self.report_file, self.workspace = path / "report.html", path / "workspace"
        self.validation = path / "validation.json"

    @classmethod
    def open(
        cls, outputs: str | os.PathLike[str], name: str, identity: Mapping[str, Any], now: datetime
    ) -> RunFolder:
        """The newest unfinished folder of the same identity, else a new one."""
        root = make_folder(outputs)
        told = strict_json.loads(strict_json.dumps(identity))
        for found in sorted(root.iterdir(), reverse=True):
            folder = cls(found)
            if folder._is_unfinished(told):
                return folder
        return cls._new(root, name, told, now)

    @classmethod
    def _new(cls, root: Path, name: str, told: Mapping[str, Any], now: datetime) -> RunFolder:
        stem = f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}_{slug(name)}"
        number, path = 1, root / stem
        while path.exists():
            number += 1
            path = root / f"{stem}-{number}"
        folder = cls(make_folder(path))
        make_folder(path / "requests")
        replace_json(folder.plan_file, told)
        return folder

    def _is_unfinished(self, told: Mapping[str, Any]) -> bool:
        if self.results_file.exists() or not self.plan_file.is_file():
            return False
        try:
            return bool(strict_json.loads(self.plan_file.read_bytes()) == told)
        except (FormatError, OSError):  # not ours, or not readable: leave it alone
            return False

    def clean(self) -> None:
        """Remove what a kill left half-written; only for the one who holds the folder."""
        for folder in (self.path, make_folder(self.path / "requests")):
            remove_temporary_folders(folder)
            remove_temporaries(folder)

    def request(self, at: int, name: str) -> Path:
        """Where the result of a request lies."""
        return self.path / "requests" / f"{at:03d}_{slug(name)}"
