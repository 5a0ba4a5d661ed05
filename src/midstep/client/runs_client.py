"""The parts of a `Client` for all runs of a server: the list, one stored run, recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from midstep.client.http_transport import Transport
from midstep.core.ids import new_command_id

Names = str | Sequence[str]
Rows = list[dict[str, Any]]


class RunsClient:
    """The runs of a server, live and ended; `client.runs` is one of these.

    `midstep serve` has all runs of its folder, the page of a single run has that run.

    Args:
        transport: connection to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **query: Any) -> Rows:
        """Return the runs, newest first; `query` as in `page`."""
        return list(self.page(**query)["runs"])

    def page(
        self,
        *,
        q: str = "",
        state: Names = (),
        tag: Names = (),
        where: Names = (),
        **further: Any,
    ) -> dict[str, Any]:
        """Return runs, total, matching, states, columns, and with `group` also groups.

        Args:
            q: words that all occur in a run's name, tags or note.
            state: any of these.
            tag: all of these.
            where: conditions such as `"config.lr=0.1"`; all must hold.
            **further: sort (`"-val_loss"`), group (`"config.lr"`), columns, offset, limit.
        """
        pairs: list[tuple[str, Any]] = [("q", q), ("state", ",".join(_as_sequence(state)))]
        # A tag or condition may contain a comma, so these two are repeated instead of joined.
        pairs += [("tag", each) for each in _as_sequence(tag)]
        pairs += [("where", each) for each in _as_sequence(where)]
        pairs += further.items()
        query = urlencode([(name, value) for name, value in pairs if value not in (None, "")])
        path = f"/api/v1/runs?{query}" if query else "/api/v1/runs"
        return dict(self._transport.request("GET", path))

    def get(self, run_id: str) -> StoredRunClient:
        """Return one run: `info()`, `label(tags=…)`, `files()`, `delete(confirm=…)`."""
        return StoredRunClient(self._transport, run_id)

    def curves(
        self, runs: Sequence[str], name: str, *, x: str = "step", points: int = 500
    ) -> dict[str, Any]:
        """Return one series of several runs: x, low, high, exact, count, by run id.

        Args:
            runs: ids of the runs.
            name: name of the series.
            x: `step`, `epoch` or `time`.
            points: most points of each curve.
        """
        query = {"runs": ",".join(runs), "name": name, "x": x, "points": points}
        return dict(self._transport.request("GET", "/api/v1/curves", query=query)["curves"])


def _as_sequence(names: Names) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


class StoredRunClient:
    """One run of a server, live or ended; `client.runs.get(run_id)` returns one.

    Args:
        transport: connection to the server.
        run_id: id of the run.
    """

    def __init__(self, transport: Transport, run_id: str) -> None:
        self._transport, self.id = transport, run_id

    def info(self) -> dict[str, Any]:
        """Return its row in the list, with its header record."""
        return dict(self._request("GET"))

    def label(
        self, *, tags: Sequence[str] | None = None, note: str | None = None
    ) -> dict[str, Any]:
        """Replace its tags, its note or both; return its row."""
        given = {"tags": None if tags is None else list(tags), "note": note}
        body = {name: value for name, value in given.items() if value is not None}
        return dict(self._request("PATCH", body=body))

    def files(self) -> list[dict[str, Any]]:
        """Return the files of its directory: id, path, bytes, kind, own (written by midstep)."""
        return list(self._request("GET", "files")["files"])

    def file(self, file_id: str) -> bytes:
        """Return the content of a file."""
        return self._transport.fetch(self._path(f"files/{quote(file_id, safe='')}"))

    def console(
        self, *, after: int | None = None, tail: int | None = None, stop: str | None = None
    ) -> dict[str, Any]:
        """Return what it printed: text, start, end, size, line; `after=end` continues."""
        return dict(
            self._request("GET", "console", query={"after": after, "tail": tail, "stop": stop})
        )

    def evidence(self) -> dict[str, Any]:
        """Return what was kept of it: stops, end, checkpoints, bytes.

        The id of a stop is the `stop` of `client.batch` and `client.step_data`.
        """
        return dict(self._request("GET", "evidence"))

    def media(self) -> list[dict[str, Any]]:
        """Return what was logged besides numbers: id, key, kind, numbers, steps of each group."""
        return list(self._request("GET", "media")["groups"])

    def media_group(self, group_id: str) -> dict[str, Any]:
        """Return one group with what is known of its items; histograms are whole."""
        return dict(self._request("GET", f"media/{quote(group_id, safe='')}"))

    def media_content(self, group_id: str, number: int) -> dict[str, Any]:
        """Return a text, or the columns and rows of a table."""
        return dict(self._request("GET", f"media/{quote(group_id, safe='')}/{number}"))

    def media_picture(self, group_id: str, number: int) -> bytes:
        """Return a picture as PNG."""
        path = f"media/{quote(group_id, safe='')}/{number}/picture"
        return self._transport.fetch(self._path(path))

    def lineage(self) -> dict[str, Any]:
        """Return timelines, parent and children."""
        return dict(self._request("GET", "lineage"))

    def delete(self, *, confirm: str) -> dict[str, Any]:
        """Delete the files that midstep wrote; `confirm` must be the name of its directory.

        Returns removed_bytes, removed_files, and in kept the files that midstep did not write.
        """
        return dict(self._request("DELETE", body={"confirm": confirm}))

    def _request(
        self,
        method: str,
        name: str = "",
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> Any:
        return self._transport.request(method, self._path(name), query=query, body=body)

    def _path(self, name: str) -> str:
        base = f"/api/v1/runs/{quote(self.id, safe='')}"
        return f"{base}/{name}" if name else base


class RecipesClient:
    """Trainings that a server starts by name; `client.recipes` is one of these.

    Args:
        transport: connection to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Rows:
        """Return all recipes with their typed settings."""
        return list(self._transport.request("GET", "/api/v1/recipes")["recipes"])

    def files(self) -> Rows:
        """Return the data files that a setting of the kind `file` can name by id."""
        return list(self._transport.request("GET", "/api/v1/recipes/files")["files"])

    def preview(self, recipe: str, **settings: Any) -> str:
        """Return all settings that a run would have, as YAML."""
        body = {"recipe": recipe, "settings": settings}
        answer = self._transport.request("POST", "/api/v1/recipes/preview", body=body)
        return str(answer["config"])

    def scripts(self) -> Rows:
        """Return the scripts that the server may start: id, title, name."""
        return list(self._transport.request("GET", "/api/v1/scripts")["scripts"])

    def start_script(
        self, script_id: str, *, name: str | None = None, paused: bool = False
    ) -> dict[str, Any]:
        """Start a script of the server as a process; return its row at its first step.

        Args:
            script_id: its id in `scripts`.
            name: name of the run; that of the script if left out.
            paused: pause before the first step.
        """
        body = {"paused": paused, "id": new_command_id()} | ({} if name is None else {"name": name})
        path = f"/api/v1/scripts/{quote(script_id, safe='')}/runs"
        return dict(self._transport.request("POST", path, body=body))

    def start(
        self, recipe: str, *, name: str | None = None, paused: bool = False, **settings: Any
    ) -> dict[str, Any]:
        """Start a run as a separate process; return its row as soon as it is listed.

        Args:
            recipe: name of the recipe.
            name: name of the run; that of the recipe if left out.
            paused: pause before the first step.
            **settings: settings of the recipe; the others have their defaults.
        """
        body: dict[str, Any] = {
            "recipe": recipe,
            "settings": settings,
            "paused": paused,
            "id": new_command_id(),
        }
        if name is not None:
            body["name"] = name
        return dict(self._transport.request("POST", "/api/v1/runs", body=body))
