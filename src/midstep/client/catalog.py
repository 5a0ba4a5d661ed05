"""The runs of a server: a list to choose from, curves over each other, and one run's keeping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from midstep.client.transport import Transport

__all__ = ["ListedRun", "list_runs", "read_curves"]

Names = str | Sequence[str]


def list_runs(
    transport: Transport,
    *,
    q: str = "",
    state: Names = (),
    tag: Names = (),
    where: Names = (),
    **further: Any,
) -> dict[str, Any]:
    """The answer of GET /api/v1/runs: runs, total, matching, states, groups, columns."""
    asked: list[tuple[str, Any]] = [("q", q), ("state", ",".join(_several(state)))]
    asked += [("tag", each) for each in _several(tag)]
    asked += [("where", each) for each in _several(where)]
    asked += list(further.items())
    query = urlencode([(name, value) for name, value in asked if value not in (None, "")])
    return dict(transport.ask("GET", f"/api/v1/runs?{query}" if query else "/api/v1/runs"))


def read_curves(
    transport: Transport, runs: Sequence[str], name: str, *, x: str = "step", points: int = 500
) -> dict[str, Any]:
    """One series of several runs by id: x, low, high, exact, count."""
    asked = {"runs": ",".join(runs), "name": name, "x": x, "points": points}
    return dict(transport.ask("GET", "/api/v1/curves", query=asked)["curves"])


def _several(names: Names) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


class ListedRun:
    """One run of a server, live or ended; `client.listed(run_id)` is one of these.

    Args:
        transport: how the server is asked.
        run_id: as the list names it.
    """

    def __init__(self, transport: Transport, run_id: str) -> None:
        self._transport, self.id = transport, run_id

    def info(self) -> dict[str, Any]:
        """Its row in the list, with its header record."""
        return dict(self._ask("GET"))

    def label(
        self, *, tags: Sequence[str] | None = None, note: str | None = None
    ) -> dict[str, Any]:
        """Replace its tags, its note or both; gives its row."""
        given = {"tags": None if tags is None else list(tags), "note": note}
        body = {name: value for name, value in given.items() if value is not None}
        return dict(self._ask("PATCH", body=body))

    def files(self) -> list[dict[str, Any]]:
        """Every file of its directory: id, path, bytes, kind, and whether it is the run's own."""
        return list(self._ask("GET", "files")["files"])

    def file(self, file_id: str) -> bytes:
        """The content of a file."""
        return self._transport.fetch(self._path(f"files/{quote(file_id, safe='')}"))

    def console(self, *, after: int | None = None, tail: int | None = None) -> dict[str, Any]:
        """What its process printed: text, start, end, size; `after=end` asks on."""
        return dict(self._ask("GET", "console", query={"after": after, "tail": tail}))

    def lineage(self) -> dict[str, Any]:
        """Timelines, parent and children."""
        return dict(self._ask("GET", "lineage"))

    def delete(self, *, confirm: str) -> dict[str, Any]:
        """Delete what is its own; `confirm` is the name of its directory, to be sure.

        Gives removed_bytes, removed_files, and in kept what was not the run's own.
        """
        return dict(self._ask("DELETE", body={"confirm": confirm}))

    def _ask(
        self,
        method: str,
        name: str = "",
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        return self._transport.ask(method, self._path(name), query=query, body=body)

    def _path(self, name: str) -> str:
        base = f"/api/v1/runs/{quote(self.id, safe='')}"
        return f"{base}/{name}" if name else base
