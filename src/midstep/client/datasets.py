"""One embedding dataset of a server, as the Data page shows it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from midstep.client.transport import Transport

__all__ = ["ServedDataset"]


class ServedDataset:
    """A dataset by its id; every call asks the server anew.

    Args:
        transport: to the server.
        dataset_id: as `Client.datasets()` lists it.
    """

    def __init__(self, transport: Transport, dataset_id: str) -> None:
        self.id, self._transport = dataset_id, transport

    def __repr__(self) -> str:
        return f"ServedDataset({self.id!r})"

    def info(self) -> dict[str, Any]:
        """Counts, splits, clusters and tiers, and what lies beside the tables."""
        return self._get("")

    def map(self, *, points: int = 1500) -> dict[str, Any]:
        """Centroids and a sample of questions on the plane in which questions differ most."""
        return self._get("/map", points=points)

    def pairs(
        self,
        *,
        split: str | None = None,
        cluster: int | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Pairs by id, of a split (`train`, `val`, `test`) and a cluster; `total` counts all."""
        return self._get("/pairs", split=split, cluster=cluster, offset=offset, limit=limit)

    def pair(self, number: int) -> dict[str, Any]:
        """Question, source, keywords, negatives by tier, steering vectors, variants over epochs."""
        return self._get(f"/pairs/{int(number)}")

    def curriculum(self, *, epochs: int = 100) -> dict[str, Any]:
        """Shares of the four variants over epochs, under each schedule."""
        return self._get("/curriculum", epochs=epochs)

    def audit(self) -> dict[str, Any]:
        """The builder's report on leaks between splits, and its ledger of short tiers."""
        return self._get("/audit")

    def _get(self, rest: str, **query: Any) -> dict[str, Any]:
        path = f"/api/v1/datasets/{quote(self.id, safe='')}{rest}"
        return dict(self._transport.ask("GET", path, query=query))
