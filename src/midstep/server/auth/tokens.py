"""Tokens of an outputs folder: one that controls, one that is view-only."""

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
    """The two tokens of an outputs folder.

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
        """Without the tokens, so that none gets into a log."""
        return "Tokens(control=…, viewer=…)"

    @classmethod
    def fresh(cls) -> Tokens:
        """Two new tokens, which are not saved."""
        return cls(control=secrets.token_urlsafe(32), viewer=secrets.token_urlsafe(32))

    @classmethod
    def for_root(cls, outputs_root: str | Path, *, new: bool = False) -> Tokens:
        """The tokens of `outputs_root`. Missing ones are drawn and saved in a file of mode 0600.

        Args:
            outputs_root: the folder that holds the runs.
            new: draw new tokens; links with the old ones stop working.
        """
        path = root_file(outputs_root, "token")
        saved = None if new else _read(path)
        if saved is not None:
            return saved
        with _locked(path.parent):
            # Read again under the lock: a run and a server may start together, and both must use
            # the same tokens.
            saved = None if new else _read(path)
            if saved is None:
                saved = cls.fresh()
                _write(path, saved)
        return saved

    @classmethod
    def kept(cls, outputs_root: str | Path) -> Tokens | None:
        """The saved tokens of `outputs_root`; None when there are none. Nothing is written."""
        return _read(root_file(outputs_root, "token"))

    def token(self, role: Role) -> str:
        """The token of a role."""
        return self.control if role == "control" else self.viewer

    def role(self, given: str) -> Role | None:
        """The role of a token; None for a wrong one."""
        # Both comparisons always run, each in constant time: the response time tells nothing.
        raw = given.encode("utf-8", "surrogatepass")
        control = hmac.compare_digest(raw, self.control.encode())
        viewer = hmac.compare_digest(raw, self.viewer.encode())
        return "control" if control else "viewer" if viewer else None


class KeptTokens:
    """The saved tokens of an outputs folder. Replaced tokens take effect at the next request.

    Args:
        outputs_root: the folder that holds the runs; missing tokens are drawn.
    """

    def __init__(self, outputs_root: str | Path) -> None:
        self._path = root_file(outputs_root, "token")
        self._tokens = Tokens.for_root(outputs_root)
        self._stamp = _stamp(self._path)

    def __repr__(self) -> str:
        """Without the tokens, so that none gets into a log."""
        return "KeptTokens(control=…, viewer=…)"

    @property
    def now(self) -> Tokens:
        """The tokens in the file; the last known ones while it cannot be read."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._tokens, self._stamp = _read(self._path) or self._tokens, stamp
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
        """The role of a token; None for a wrong one."""
        return self.now.role(given)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read(path: Path) -> Tokens | None:
    """The tokens in `path`; None when other users could have read them or the file is damaged."""
    saved = read_state_file(path)
    if saved is None:
        return None
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        return None
    control, viewer = saved.get("control"), saved.get("viewer")
    if not (isinstance(control, str) and isinstance(viewer, str)):
        return None
    is_valid = _TOKEN.fullmatch(control) and _TOKEN.fullmatch(viewer) and control != viewer
    return Tokens(control=control, viewer=viewer) if is_valid else None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes, where its file system supports locks."""
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


def _write(path: Path, tokens: Tokens) -> None:
    """Save the tokens where only the user can read them: a 0700 folder, a 0600 file."""
    text = strict_json.dumps({"control": tokens.control, "viewer": tokens.viewer})
    try:
        storage.replace_bytes(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        cause = error.__cause__ if isinstance(error, StorageError) else error
        raise _refused(path.parent, cause if isinstance(cause, OSError) else error) from error


def _refused(folder: Path, error: OSError) -> StorageError:
    refused = StorageError(
        f"cannot save the tokens of the page in {folder}: {error.strerror or error}; "
        "set XDG_STATE_HOME to a folder that you may write"
    )
    refused.errno = error.errno
    return refused
