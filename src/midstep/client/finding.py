"""Finding the live run of an outputs folder through its lease and the token file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from midstep.client.places import read_place, root_file
from midstep.client.transport import Transport
from midstep.core.errors import ClientError

__all__ = ["Found", "find_run", "find_runs", "named", "token_of"]

ANSWER_WITHIN_S = 2.0
FIRST_KNOCK_WITHIN_S = 30.0
"""A run without a page loads its server when somebody first knocks at its socket."""
ON_SOCKET = "http://localhost"
"""The name under which a run answers on its Unix socket."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run that answers."""

    run_id: str
    """Its id."""
    directory: Path
    """Its run directory."""
    url: str
    """Where it is served."""
    socket: str | None = None
    """The Unix socket it answers on, where it has no page of its own."""
    name: str | None = None
    """What it is called; None when its server did not say, for want of a token."""
    state: str | None = None
    """Its real state, for example `paused`."""
    step: int | None = None
    """Finished steps."""

    @property
    def words(self) -> str:
        """Everything that tells it from another run, in one line."""
        step = "" if self.step is None else f", step {self.step:,}"
        return (
            f"{self.name or self.directory.name}, id {self.run_id}{step}, "
            f"{'no page of its own' if self.socket else self.url}, in {self.directory.name}"
        )


def token_of(save_dir: str | Path) -> str | None:
    """The control token of an outputs root, if this user has one."""
    token = (read_place(root_file(save_dir, "token")) or {}).get("control")
    return token if isinstance(token, str) else None


def find_runs(save_dir: str | Path) -> list[Found]:
    """The runs below `save_dir` whose lease names an address or socket that answers for them."""
    token = token_of(save_dir)
    leases = sorted(Path(save_dir).glob("*/lease.json"))
    candidates = [_of_lease(lease) for lease in leases]
    asked = [None if each is None else _asked(each, token) for each in candidates]
    return [found for found in asked if found is not None]


def find_run(directory: Path, *, within_s: float = ANSWER_WITHIN_S) -> Found | None:
    """The run of this directory if it has a page that answers in time."""
    found = _of_lease(directory / "lease.json")
    if found is None or found.socket is not None:  # a list of runs knocks at nobody's socket
        return None
    return _asked(found, token_of(directory.parent), within_s=within_s)


def named(found: Sequence[Found], wanted: str) -> list[Found]:
    """The runs that `wanted` means: an id, a name, a directory's name, or the start of one.

    >>> one = Found(run_id="k3v9", directory=Path("run_b"), url="http://h", name="base")
    >>> two = Found(run_id="m1x2", directory=Path("run_c"), url="http://h", name="baseline")
    >>> [each.run_id for each in named([one, two], "base")], len(named([one, two], "run_"))
    (['k3v9'], 2)
    """
    exact = [each for each in found if wanted in _names(each)]
    return exact or [
        each for each in found if any(name.startswith(wanted) for name in _names(each))
    ]


def _names(found: Found) -> list[str]:
    return [found.run_id, found.directory.name, *([found.name] if found.name else [])]


def _of_lease(path: Path) -> Found | None:
    kept = read_place(path) or {}
    run_id, url, socket = kept.get("run_id"), kept.get("url"), kept.get("socket")
    if not isinstance(run_id, str):
        return None
    if isinstance(url, str) and url.startswith("http://"):
        return Found(run_id=run_id, directory=path.parent, url=url.partition("#")[0])
    if isinstance(socket, str):
        return Found(run_id=run_id, directory=path.parent, url=ON_SOCKET, socket=socket)
    return None


def _asked(found: Found, token: str | None, *, within_s: float = ANSWER_WITHIN_S) -> Found | None:
    """The run with what its server says of it; None when nobody answers for it.

    A lease may be left over from a killed run, and another run may have its port now.
    """
    try:
        waiting_s = within_s if found.socket is None else FIRST_KNOCK_WITHIN_S
        transport = Transport(found.url, token, timeout_s=waiting_s, socket_path=found.socket)
        told: dict[str, Any] = transport.ask("GET", f"/api/v1/runs/{found.run_id}")
    except ClientError as error:
        # A wrong token still is an answer; the caller then learns that from its first request.
        return found if error.status in (401, 403, 429) else None
    return replace(found, name=told["name"], state=told["state"], step=told["step"])
