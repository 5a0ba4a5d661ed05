"""Tokens of an outputs root: one that controls, one that only looks."""

from __future__ import annotations

import fcntl
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from midstep.core import strict_json
from midstep.core.errors import StorageError
from midstep.core.files import storage
from midstep.core.files.user_state import read_state_file, root_file

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
        with _one_at_a_time(path.parent):
            kept = None if new else _kept(path)  # a run and a server may begin together
            made = kept or cls.fresh()
            if kept is None:
                _keep(path, made)
        return made

    @classmethod
    def kept(cls, outputs_root: str | Path) -> Tokens | None:
        """The tokens of `outputs_root` if this user has any; nothing is written."""
        return _kept(root_file(outputs_root, "token"))

    def of(self, role: Role) -> str:
        """The secret of a role."""
        return self.control if role == "control" else self.viewer

    def role(self, given: str) -> Role | None:
        """What `given` allows; both comparisons always run, in constant time."""
        raw = given.encode("utf-8", "surrogatepass")
        control = hmac.compare_digest(raw, self.control.encode())
        viewer = hmac.compare_digest(raw, self.viewer.encode())
        return "control" if control else "viewer" if viewer else None


class KeptTokens:
    """The tokens of an outputs root as they are kept now: replaced ones count at once.

    Args:
        outputs_root: the folder that holds the runs; tokens are drawn when it has none.
    """

    def __init__(self, outputs_root: str | Path) -> None:
        self._path = root_file(outputs_root, "token")
        self._tokens = Tokens.for_root(outputs_root)
        self._stamp = _stamp(self._path)

    def __repr__(self) -> str:
        """Secrets stay out of logs."""
        return "KeptTokens(control=…, viewer=…)"

    @property
    def now(self) -> Tokens:
        """Those in the file; the last known ones while it cannot be read."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._tokens, self._stamp = _kept(self._path) or self._tokens, stamp
        return self._tokens

    @property
    def control(self) -> str:
        """May do everything."""
        return self.now.control

    @property
    def viewer(self) -> str:
        """May only read."""
        return self.now.viewer

    def role(self, given: str) -> Role | None:
        """What `given` allows."""
        return self.now.role(given)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _kept(path: Path) -> Tokens | None:
    """The tokens in `path`; None when others could have read them or they are not tokens."""
    kept = read_state_file(path)
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


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold the folder against other processes, where its file system has locks."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _keep(path: Path, tokens: Tokens) -> None:
    """Write them where only the user can look: a 0700 folder, a 0600 file."""
    kept = strict_json.dumps({"control": tokens.control, "viewer": tokens.viewer})
    try:
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
