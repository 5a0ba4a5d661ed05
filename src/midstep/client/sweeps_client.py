"""The part of a `Client` for sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from midstep.client.http_transport import Transport

SWEEPS = "/api/v1/sweeps"


class SweepsClient:
    """The sweeps of a server; `client.sweeps` is one of these.

    Args:
        transport: connection to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> list[dict[str, Any]]:
        """Return the sweeps of the outputs folder, newest first."""
        return list(self._transport.request("GET", SWEEPS)["sweeps"])

    def get(self, sweep_id: str, *, value: str | None = None) -> dict[str, Any]:
        """Return one sweep: axes, cells with states and values, effects of the axes.

        Args:
            sweep_id: id of the sweep.
            value: the value to show; the best validation loss if left out.
        """
        query = "" if value is None else f"?value={quote(value, safe='')}"
        return dict(self._transport.request("GET", f"{_path(sweep_id)}{query}"))

    def start(
        self,
        sweep_id: str,
        *,
        jobs: int = 2,
        retry_failed: bool = False,
        cells: Sequence[int] | None = None,
    ) -> None:
        """Run the open cells in a process that outlives the server.

        Args:
            sweep_id: id of the sweep.
            jobs: most cells at a time.
            retry_failed: also run cells that failed.
            cells: only these cells.
        """
        body: dict[str, Any] = {"jobs": jobs, "retry_failed": retry_failed}
        if cells is not None:
            body["cells"] = list(cells)
        self._transport.request("POST", f"{_path(sweep_id)}/start", body=body)

    def stop(self, sweep_id: str, cell: int | None = None) -> None:
        """Stop a sweep, or one cell of it. Each running cell takes a checkpoint."""
        part = "" if cell is None else f"/cells/{cell}"
        self._transport.request("POST", f"{_path(sweep_id)}{part}/stop", body={})


def _path(sweep_id: str) -> str:
    return f"{SWEEPS}/{quote(sweep_id, safe='')}"
