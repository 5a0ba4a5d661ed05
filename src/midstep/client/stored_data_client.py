"""The parts of a `Client` for stored data: embedding datasets and influence results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote

from midstep.client.http_transport import Transport

DATASETS = "/api/v1/datasets"
INFLUENCE = "/api/v1/influence"
Batch = int | Literal["update"]
"""Number of a request; `update` for the sequences of the update themselves."""
Rows = list[dict[str, Any]]


class DatasetsClient:
    """The embedding datasets of a server; `client.datasets` is one of these.

    Args:
        transport: connection to the server.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self) -> Rows:
        """Return the datasets in the folders that the server was given, newest first."""
        return list(self._transport.request("GET", DATASETS)["datasets"])

    def get(self, dataset_id: str) -> DatasetClient:
        """Return one dataset: `info()`, `map()`, `pairs(split="val")`, `pair(17)`, `audit()`."""
        return DatasetClient(self._transport, dataset_id)


class DatasetClient:
    """One embedding dataset of a server; `client.datasets.get(dataset_id)` returns one.

    Args:
        transport: connection to the server.
        dataset_id: id of the dataset.
    """

    def __init__(self, transport: Transport, dataset_id: str) -> None:
        self.id, self._transport = dataset_id, transport

    def __repr__(self) -> str:
        return f"DatasetClient({self.id!r})"

    def info(self) -> dict[str, Any]:
        """Return counts, splits, clusters, tiers, and which other files there are."""
        return self._get("")

    def map(self, *, points: int = 1500) -> dict[str, Any]:
        """Return centroids and a sample of questions, on the first two principal components."""
        return self._get("/map", points=points)

    def pairs(
        self,
        *,
        split: str | None = None,
        cluster: int | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> dict[str, Any]:
        """Return pairs by id, of a split (`train`, `val`, `test`) and a cluster, and the total."""
        return self._get("/pairs", split=split, cluster=cluster, offset=offset, limit=limit)

    def pair(self, number: int) -> dict[str, Any]:
        """Return question, source, keywords, negatives by tier, steering vectors and variants."""
        return self._get(f"/pairs/{int(number)}")

    def curriculum(self, *, epochs: int = 100) -> dict[str, Any]:
        """Return the shares of the four variants over epochs, for each schedule."""
        return self._get("/curriculum", epochs=epochs)

    def audit(self) -> dict[str, Any]:
        """Return the builder's report on leaks between splits, and its ledger of short tiers."""
        return self._get("/audit")

    def _get(self, rest: str, **query: Any) -> dict[str, Any]:
        path = f"{DATASETS}/{quote(self.id, safe='')}{rest}"
        return dict(self._transport.request("GET", path, query=query))


class InfluenceClient:
    """The stored influence results of a server; `client.influence` is one of these.

    Args:
        transport: connection to the server.

    >>> InfluenceClient(Transport("http://127.0.0.1:8765", None)).path("study", "update")
    '/api/v1/influence/study/update'
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def results(self) -> list[dict[str, Any]]:
        """Return all results, newest first: state, step, sizes, and why one cannot be shown."""
        return list(self._get(INFLUENCE)["results"])

    def result(self, result_id: str) -> dict[str, Any]:
        """Return the update with texts and weights, its step, coverage, validation, the batches."""
        return dict(self._get(self.path(result_id)))

    def batch(self, result_id: str, batch: Batch = 0) -> dict[str, Any]:
        """Return Δ log π of each evaluated sequence, with its terms and stored contributors."""
        return dict(self._get(self.path(result_id, batch)))

    def kernel(self, result_id: str, batch: Batch = 0) -> dict[str, Any]:
        """Return the kernel: `kernel[i][j]` of sequence ids `rows[i]` and `columns[j]`."""
        return dict(self._get(f"{self.path(result_id, batch)}/kernel"))

    def what_if(
        self, result_id: str, advantages: Mapping[str, float], *, batch: Batch = 0
    ) -> dict[str, Any]:
        """Return Δ log π under other advantages, by sequence id; those not given stay."""
        changed = ",".join(f"{name}:{float(value)!r}" for name, value in advantages.items())
        return dict(self._get(f"{self.path(result_id, batch)}/what_if", advantages=changed or None))

    def path(self, result_id: str, batch: Batch | None = None) -> str:
        """Return the path of a result, or of one of its batches."""
        path = f"{INFLUENCE}/{quote(result_id, safe='')}"
        return path if batch is None else f"{path}/{quote(str(batch), safe='')}"

    def _get(self, path: str, **query: Any) -> Any:
        return self._transport.request("GET", path, query=query)
