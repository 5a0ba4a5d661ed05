"""The user's folders for midstep: state (tokens and ports, a file per outputs folder) and cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.untrusted_files import read_plain

_BELOW_HOME = {"state": ".local/state", "cache": ".cache"}


def user_folder(kind: Literal["state", "cache"]) -> Path:
    """The folder for the user's state or cache.

    `$XDG_STATE_HOME/midstep`, else `~/.local/state/midstep`; `$XDG_CACHE_HOME/midstep`, else
    `~/.cache/midstep`. The same folders on every system: on macOS too, unlike platformdirs.
    """
    variable = f"XDG_{kind.upper()}_HOME"
    base = os.environ.get(variable)
    if base:
        return Path(base) / "midstep"
    try:
        return Path.home() / _BELOW_HOME[kind] / "midstep"
    except RuntimeError:  # a user without a home, as in some containers
        raise StorageError(
            f"this user has no home folder; set {variable} to a folder you may write"
        ) from None


def hash_folder(folder: str | os.PathLike[str]) -> str:
    """A name for `folder` made of its real path, so that links to one folder share it."""
    real = os.path.realpath(folder).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(real, digest_size=10).hexdigest()


def root_file(outputs_root: str | Path, kind: str) -> Path:
    """The file in the state folder that holds the `kind` (`token`, `port`) of an outputs folder."""
    name = hash_folder(Path(outputs_root).expanduser())
    return user_folder("state") / f"{name}.{kind}.json"


def read_state_file(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None if the file is missing, unreadable or damaged."""
    try:
        content = strict_json.loads(read_plain(path))
    except (OSError, FormatError):
        return None
    return content if isinstance(content, dict) else None
