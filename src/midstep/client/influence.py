"""Stored influence results as the page reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from midstep.client.transport import Transport

__all__ = ["StoredResults"]

ADDRESS = "/api/v1/influence"
Batch = int | Literal["update"]


class StoredResults:
    """The results in the folder `influence` of a server; for both tokens.

    A batch is the number of a request, or `update` for the sequences of the update themselves.

    Args:
        transport: where the server is.

    >>> StoredResults(Transport("http://127.0.0.1:8765", None)).address_of("study", "update")
    '/api/v1/influence/study/update'
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def results(self) -> list[dict[str, Any]]:
        """All of them, newest first: state, step, sizes, and why one cannot be shown."""
        return list(self._get(ADDRESS)["results"])

    def result(self, result_id: str) -> dict[str, Any]:
        """The update with texts and weights, its step, coverage, validation, the batches."""
        return dict(self._get(self.address_of(result_id)))

    def batch(self, result_id: str, batch: Batch = 0) -> dict[str, Any]:
        """Per evaluated sequence Δ log π with its terms and the stored contributors."""
        return dict(self._get(self.address_of(result_id, batch)))

    def kernel(self, result_id: str, batch: Batch = 0) -> dict[str, Any]:
        """K of all pairs: `kernel[i][j]` of `rows[i]` and `columns[j]`, which are sequence ids."""
        return dict(self._get(f"{self.address_of(result_id, batch)}/kernel"))

    def what_if(
        self, result_id: str, advantages: Mapping[str, float], *, batch: Batch = 0
    ) -> dict[str, Any]:
        """Δ log π under other advantages, by sequence id; the others stay as they were."""
        asked = ",".join(f"{name}:{float(value)!r}" for name, value in advantages.items())
        return dict(
            self._get(f"{self.address_of(result_id, batch)}/what_if", advantages=asked or None)
        )

    def address_of(self, result_id: str, batch: Batch | None = None) -> str:
        """The path of a result, or of one of its batches."""
        path = f"{ADDRESS}/{quote(result_id, safe='')}"
        return path if batch is None else f"{path}/{quote(str(batch), safe='')}"

    def _get(self, path: str, **query: Any) -> Any:
        return self._transport.ask("GET", path, query=query)
