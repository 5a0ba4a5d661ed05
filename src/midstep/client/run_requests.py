"""Requests about one run, and the two ways to send a command to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from midstep.client.http_transport import Transport
from midstep.core.errors import ClientError
from midstep.core.ids import new_command_id

MAX_NAMED_RUNS = 8


class RunRequests:
    """Sends requests about one run; `Client` and its parts share one of these.

    Args:
        transport: connection to the server.
        run: id of the run; None means the only live run of the server.
    """

    def __init__(self, transport: Transport, run: str | None) -> None:
        self.transport, self.run = transport, run

    def debug_path(self, name: str) -> str:
        """Return the path of a debug route; without a run id the short one of the only live run."""
        return f"/debug/{name}" if self.run is None else f"/api/v1/runs/{self.run}/debug/{name}"

    def run_path(self, name: str) -> str:
        """Return the path of a route of the run; these routes always need an id."""
        if self.run is None:
            self.run = self._only_run()
        return f"/api/v1/runs/{self.run}/{name}"

    def get(self, path: str, **query: Any) -> Any:
        """Send a GET request; return the parsed response."""
        return self.transport.request("GET", path, query=query)

    def fetch(self, path: str, **query: Any) -> bytes:
        """Send a GET request; return the bytes of the response."""
        return self.transport.fetch(path, query=query)

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request that changes something; return the parsed response."""
        return self.transport.request(method, path, body=body)

    def _only_run(self) -> str:
        rows = self.get("/api/v1/runs")["runs"]
        # A server over a folder lists ended runs too; one live run among them is the one meant.
        rows = [row for row in rows if row["live"]] or rows
        if len(rows) == 1:
            return str(rows[0]["id"])
        names = ", ".join(row["id"] for row in rows[:MAX_NAMED_RUNS]) or "none"
        more = " …" if len(rows) > MAX_NAMED_RUNS else ""
        raise ClientError(f"the server has {len(rows)} runs ({names}{more}). Give run=… to choose.")


class CommandRequests:
    """Sends commands to the run, and reads the command log.

    Args:
        requests: sends the requests.
    """

    def __init__(self, requests: RunRequests) -> None:
        self._requests = requests

    def command(self, name: str, **payload: Any) -> dict[str, Any]:
        """Run any command by its name, also one of a plug-in; return its record."""
        body = {"command": name, "payload": payload, "id": new_command_id()}
        return self._post_once(self._requests.run_path("commands"), body)

    def verb(self, name: str, **payload: Any) -> dict[str, Any]:
        """Run a command that has its own route; return the state, or the record after 2 s."""
        path = self._requests.debug_path(name)
        return self._post_once(path, {**_without_none(payload), "id": new_command_id()})

    def command_record(self, command_id: str) -> dict[str, Any]:
        """Return the record of a command: its status and result."""
        return dict(self._requests.get(self._command_path(command_id)))

    def cancel(self, command_id: str) -> dict[str, Any]:
        """Cancel a waiting command, or ask a running one to end; return its record."""
        return dict(self._requests.send("POST", f"{self._command_path(command_id)}/cancel", {}))

    def commands(self, limit: int = 100) -> list[dict[str, Any]]:
        """Return the command log, newest last."""
        return list(self._requests.get(self._requests.run_path("commands"), limit=limit))

    def _run_command(self, name: str, **payload: Any) -> dict[str, Any]:
        """Run a command that is defined in `core.commands`; return its record."""
        return self.command(name, **_without_none(payload))

    def _post_once(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post a command, again if no response came."""
        try:
            response = self._requests.send("POST", path, body)
        except ClientError as error:
            if error.status is not None:
                raise
            # The first request may have arrived. The server runs an id only once, so a second
            # request with the same id cannot make the run step twice.
            response = self._requests.send("POST", path, body)
        return dict(response)

    def _command_path(self, command_id: str) -> str:
        return self._requests.run_path(f"commands/{quote(command_id, safe='')}")


def _without_none(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given; the command log shows no others."""
    return {name: value for name, value in payload.items() if value is not None}
