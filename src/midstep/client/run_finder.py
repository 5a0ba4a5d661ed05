"""Find live runs below an outputs folder by their lease files, and the token of the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from midstep.client.http_transport import Transport
from midstep.core.errors import ClientError
from midstep.core.files.user_state import read_state_file, root_file
from midstep.core.ids import is_run_id

ANSWER_WITHIN_S = 2.0
FIRST_SOCKET_ANSWER_WITHIN_S = 30.0
"""A run without a page loads its server at the first connection, so the first answer is late."""
SOCKET_URL = "http://localhost"
"""Address for requests to a run on its Unix socket."""


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """A live run."""

    run_id: str
    """Id of the run."""
    directory: Path
    """Run directory."""
    url: str
    """Address of its server."""
    socket: str | None = None
    """Path of its Unix socket, if it has no page of its own."""
    name: str | None = None
    """Name of the run; None if its server refused the token."""
    state: str | None = None
    """State that its server reports, for example `paused`."""
    step: int | None = None
    """Number of finished steps."""

    @property
    def description(self) -> str:
        """Name, id, step, address and directory in one line, to tell it from other runs."""
        step = "" if self.step is None else f", step {self.step:,}"
        return (
            f"{self.name or self.directory.name}, id {self.run_id}{step}, "
            f"{'no page of its own' if self.socket else self.url}, in {self.directory.name}"
        )


def read_token(save_dir: str | Path) -> str | None:
    """Return the control token of an outputs folder; None if this user has none."""
    token = (read_state_file(root_file(save_dir, "token")) or {}).get("control")
    return token if isinstance(token, str) else None


def find_runs(save_dir: str | Path) -> list[FoundRun]:
    """Return the runs below `save_dir` whose lease names an address or socket that answers."""
    token = read_token(save_dir)
    candidates = [_read_lease(lease) for lease in sorted(Path(save_dir).glob("*/lease.json"))]
    answers = [None if each is None else _ask_server(each, token) for each in candidates]
    runs = [run for run in answers if run is not None]
    # A run without a page makes the token of a new folder at the first connection, which was ours.
    if token is None and runs and (token := read_token(save_dir)) is not None:
        answers = [run if run.name else _ask_server(run, token) for run in runs]
        runs = [run for run in answers if run is not None]
    return runs


def find_run(directory: Path, *, within_s: float = ANSWER_WITHIN_S) -> FoundRun | None:
    """Return the run of a directory if it has a page that answers in time."""
    run = _read_lease(directory / "lease.json")
    # A connection to its socket would load a server into a run that has none. A list of runs
    # must not do that.
    if run is None or run.socket is not None:
        return None
    return _ask_server(run, read_token(directory.parent), within_s=within_s)


def matching_runs(runs: Sequence[FoundRun], name: str) -> list[FoundRun]:
    """Return the runs whose id, name or directory is `name`, or else begins with it.

    >>> one = FoundRun(run_id="k3v9", directory=Path("run_b"), url="http://h", name="base")
    >>> two = FoundRun(run_id="m1x2", directory=Path("run_c"), url="http://h", name="baseline")
    >>> [each.run_id for each in matching_runs([one, two], "base")]
    ['k3v9']
    >>> len(matching_runs([one, two], "run_"))
    2
    """
    exact = [run for run in runs if name in _names(run)]
    return exact or [run for run in runs if any(each.startswith(name) for each in _names(run))]


def _names(run: FoundRun) -> list[str]:
    return [run.run_id, run.directory.name, *([run.name] if run.name else [])]


def _read_lease(path: Path) -> FoundRun | None:
    lease = read_state_file(path) or {}
    run_id, url, socket = lease.get("run_id"), lease.get("url"), lease.get("socket")
    if not isinstance(run_id, str) or not is_run_id(run_id):  # it becomes part of an address
        return None
    if isinstance(url, str) and url.startswith("http://"):
        return FoundRun(run_id=run_id, directory=path.parent, url=url.partition("#")[0])
    if isinstance(socket, str):
        return FoundRun(run_id=run_id, directory=path.parent, url=SOCKET_URL, socket=socket)
    return None


def _ask_server(
    run: FoundRun, token: str | None, *, within_s: float = ANSWER_WITHIN_S
) -> FoundRun | None:
    """Return the run with what its server reports; None if no server answers for it.

    A killed run leaves its lease, and another run may have taken its port. So the server is asked
    for this id.
    """
    try:
        timeout_s = within_s if run.socket is None else FIRST_SOCKET_ANSWER_WITHIN_S
        transport = Transport(run.url, token, timeout_s=timeout_s, socket_path=run.socket)
        row: dict[str, Any] = transport.request("GET", f"/api/v1/runs/{run.run_id}")
    except ClientError as error:
        # A server that refuses the token is alive. The first request of the caller raises the
        # refusal with its reason.
        return run if error.status in (401, 403, 429) else None
    return replace(run, name=row["name"], state=row["state"], step=row["step"])
