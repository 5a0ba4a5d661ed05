"""Finding the live run of an outputs folder through its lease and the token file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midstep.client.places import read_place, root_file
from midstep.client.transport import Transport
from midstep.core.errors import ClientError

__all__ = ["Found", "find_runs", "token_of"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run that answers."""

    run_id: str
    """Its id."""
    directory: Path
    """Its run directory."""
    url: str
    """Where it is served."""


def token_of(save_dir: str | Path) -> str | None:
    """The control token of an outputs root, if this user has one."""
    token = (read_place(root_file(save_dir, "token")) or {}).get("control")
    return token if isinstance(token, str) else None


def find_runs(save_dir: str | Path) -> list[Found]:
    """The runs below `save_dir` whose lease names an address that answers for them."""
    token = token_of(save_dir)
    leases = sorted(Path(save_dir).glob("*/lease.json"))
    candidates = [found for lease in leases if (found := _of_lease(lease)) is not None]
    return [found for found in candidates if _answers(found, token)]


def _of_lease(path: Path) -> Found | None:
    kept = read_place(path) or {}
    run_id, url = kept.get("run_id"), kept.get("url")
    if not (isinstance(run_id, str) and isinstance(url, str) and url.startswith("http://")):
        return None
    return Found(run_id=run_id, directory=path.parent, url=url.partition("#")[0])


def _answers(found: Found, token: str | None) -> bool:
    """A lease may be left over from a killed run, and another run may have its port now."""
    try:
        Transport(found.url, token, timeout_s=2.0).ask("GET", f"/api/v1/runs/{found.run_id}")
    except ClientError as error:
        # A wrong token still is an answer; the caller then learns that from its first request.
        return error.status in (401, 403, 429)
    return True
