"""Routes of embedding datasets: list, one dataset, map, pairs, curriculum, audit."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from midstep.server.datasets.data_roots import DataRoots, StoredDataset
from midstep.server.datasets.dataset_files import audit_json
from midstep.server.datasets.dataset_map import curriculum_json, map_json
from midstep.server.datasets.dataset_pair import pair_json
from midstep.server.datasets.dataset_schemas import (
    CurriculumOut,
    DatasetAuditOut,
    DatasetListOut,
    DatasetMapOut,
    DatasetOut,
    PairListOut,
    PairOut,
    SplitName,
)
from midstep.server.datasets.dataset_views import dataset_json, pairs_json, summary_json
from midstep.server.problems import not_found
from midstep.server.responses import StrictJsonResponse

router = APIRouter(prefix="/api/v1/datasets", tags=["datasets"])
MOST_EPOCHS = 1000
MOST_PAIRS = 10**12


def roots_of(request: Request) -> DataRoots:
    """The folders of this app."""
    roots: DataRoots = request.app.state.datasets
    return roots


def find_dataset(
    request: Request,
    dataset_id: Annotated[str, Path(description="Id as GET /api/v1/datasets lists it.")],
) -> StoredDataset:
    """The dataset in the address; every unknown id gets the same 404."""
    return roots_of(request).get(dataset_id)


def find_pair(pair: Annotated[str, Path(description="Number of a pair.")]) -> int:
    """The pair in the address; what is not a number gets the same 404."""
    if not (pair.isascii() and pair.isdigit() and len(pair) <= 12):
        raise not_found()
    return int(pair)


RootsOf = Annotated[DataRoots, Depends(roots_of)]
DatasetOf = Annotated[StoredDataset, Depends(find_dataset)]
Offset = Annotated[int, Query(ge=0, le=MOST_PAIRS)]


@router.get("", response_model=DatasetListOut)
def datasets(roots: RootsOf) -> Response:
    """Datasets in the folders of `--data`, newest first."""
    listed = [summary_json(each) for each in roots.listing()]
    return StrictJsonResponse(
        {"datasets": listed, "total": len(listed), "roots": len(roots.folders)}
    )


@router.get("/{dataset_id}", response_model=DatasetOut)
def dataset(roots: RootsOf, stored: DatasetOf) -> Response:
    """Counts, splits, clusters, tiers, and whether it has texts, audit and ledger."""
    return StrictJsonResponse(dataset_json(roots, stored))


@router.get("/{dataset_id}/map", response_model=DatasetMapOut)
def dataset_map(
    roots: RootsOf,
    stored: DatasetOf,
    points: Annotated[int, Query(ge=1, le=5000, description="Most questions.")] = 1500,
) -> Response:
    """Centroids and a sample of questions, projected on the plane of largest variance."""
    return StrictJsonResponse(map_json(roots, stored, points))


@router.get("/{dataset_id}/pairs", response_model=PairListOut)
def dataset_pairs(
    roots: RootsOf,
    stored: DatasetOf,
    split: Annotated[SplitName | None, Query()] = None,
    cluster: Annotated[int | None, Query(ge=0, le=MOST_PAIRS)] = None,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Response:
    """Pairs sorted by id, of one split or one cluster if given."""
    return StrictJsonResponse(
        pairs_json(roots, stored, split=split, cluster=cluster, offset=offset, limit=limit)
    )


@router.get("/{dataset_id}/pairs/{pair}", response_model=PairOut)
def dataset_pair(
    roots: RootsOf, stored: DatasetOf, pair: Annotated[int, Depends(find_pair)]
) -> Response:
    """Question, source, keywords, negatives by tier, steering vectors, variants over epochs."""
    return StrictJsonResponse(pair_json(roots, stored, pair))


@router.get("/{dataset_id}/curriculum", response_model=CurriculumOut)
def dataset_curriculum(
    roots: RootsOf,
    stored: DatasetOf,
    epochs: Annotated[int, Query(ge=1, le=MOST_EPOCHS)] = 100,
) -> Response:
    """Shares of the four steering variants over epochs, for each schedule."""
    return StrictJsonResponse(curriculum_json(roots, stored, epochs))


@router.get("/{dataset_id}/audit", response_model=DatasetAuditOut)
def dataset_audit(
    stored: DatasetOf,
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """The builder's report on leaks between splits, and its ledger of short tiers."""
    return StrictJsonResponse(audit_json(stored, offset=offset, limit=limit))
