"""Tokens of an outputs root: one that controls, one that only looks."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from midstep.client.places import read_place, root_file
from midstep.core import storage, strict_json
from midstep.core.errors import StorageError

__all__ = ["Role", "Tokens"]

Role = Literal["control", "viewer"]
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
"""256 bits in URL-safe base 64."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The two secrets of an outputs root.

    >>> tokens = Tokens.fresh()
    >>> tokens.role(tokens.viewer)
    'viewer'
    >>> tokens.role("guess") is None
    True
    """

    control: str
    """May do everything."""
    viewer: str
    """May only read."""

    def __repr__(self) -> str:
        """Secrets stay out of logs."""
        return "Tokens(control=…, viewer=…)"

    @classmethod
    def fresh(cls) -> Tokens:
        """Two new ones, kept nowhere."""
        return cls(control=secrets.token_urlsafe(32), viewer=secrets.token_urlsafe(32))

    @classmethod
    def for_root(cls, outputs_root: str | Path, *, new: bool = False) -> Tokens:
        """The tokens of `outputs_root`, drawn and kept in a 0600 file when there are none.

        Args:
            outputs_root: the folder that holds the runs.
            new: draw new ones; links with the old ones stop working.
        """
        path = root_file(outputs_root, "token")
        kept = None if new else _kept(path)
        if kept is not None:
            return kept
        made = cls.fresh()
        _keep(path, made)
        return made

    def role(self, given: str) -> Role | None:
        """What `given` allows; both comparisons always run, in constant time."""
        raw = given.encode("utf-8", "surrogatepass")
        control = hmac.compare_digest(raw, self.control.encode())
        viewer = hmac.compare_digest(raw, self.viewer.encode())
        return "control" if control else "viewer" if viewer else None


def _kept(path: Path) -> Tokens | None:
    """The tokens in `path`; None when others could have read them or they are not tokens."""
    kept = read_place(path)
    if kept is None:
        return None
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        return None
    control, viewer = kept.get("control"), kept.get("viewer")
    if not (isinstance(control, str) and isinstance(viewer, str)):
        return None
    whole = _TOKEN.fullmatch(control) and _TOKEN.fullmatch(viewer) and control != viewer
    return Tokens(control=control, viewer=viewer) if whole else None


def _keep(path: Path, tokens: Tokens) -> None:
    """Write them where only the user can look: a 0700 folder, a 0600 file."""
    kept = strict_json.dumps({"control": tokens.control, "viewer": tokens.viewer})
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        storage.replace_bytes(path, f"{kept}\n".encode(), mode=0o600)
    except OSError as error:
        cause = error.__cause__ if isinstance(error, StorageError) else error
        raise _refused(path.parent, cause if isinstance(cause, OSError) else error) from error


def _refused(folder: Path, error: OSError) -> StorageError:
    refused = StorageError(
        f"cannot keep the page's token in {folder}: {error.strerror or error}; "
        "set XDG_STATE_HOME to a folder you may write"
    )
    refused.errno = error.errno
    return refused
