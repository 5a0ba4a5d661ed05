"""Where the user's tokens and ports are kept: one small file per outputs root."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError

__all__ = ["read_place", "root_file", "state_folder"]


def state_folder() -> Path:
    """The user's state folder: `$XDG_STATE_HOME/midstep`, else `~/.local/state/midstep`."""
    base = os.environ.get("XDG_STATE_HOME")
    if base:
        return Path(base) / "midstep"
    try:
        return Path.home() / ".local" / "state" / "midstep"
    except RuntimeError:  # a user without a home, as in some containers
        raise StorageError(
            "this user has no home folder; set XDG_STATE_HOME to a folder you may write"
        ) from None


def root_file(outputs_root: str | Path, kind: str) -> Path:
    """The file that keeps the `kind` (`token`, `port`) of an outputs root.

    The name is a hash of the root's real path, so that links to one folder share it.
    """
    real = str(Path(outputs_root).expanduser().resolve())
    digest = hashlib.blake2b(real.encode("utf-8", "surrogateescape"), digest_size=10).hexdigest()
    return state_folder() / f"{digest}.{kind}.json"


def read_place(path: Path) -> dict[str, Any] | None:
    """What `path` keeps; None when it is not there, is unreadable or damaged."""
    try:
        kept = strict_json.loads(path.read_bytes())
    except (OSError, FormatError):
        return None
    return kept if isinstance(kept, dict) else None
