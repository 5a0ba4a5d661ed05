"""Routes of stored influence results: list, one result, its batches, kernels, what-if."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from midstep.core.errors import FormatError
from midstep.server.array_json import numbers
from midstep.server.dependencies import Format
from midstep.server.influence.influence_schemas import (
    InfluenceAfter,
    InfluenceDelta,
    InfluenceEvaluatedSequence,
    InfluenceKernelOut,
    InfluenceListOut,
    InfluenceOut,
    InfluenceRate,
    InfluenceRequestOut,
    InfluenceRequestSummary,
    InfluenceSequence,
    InfluenceStep,
    InfluenceUpdateSequence,
    InfluenceWhatIfOut,
)
from midstep.server.influence.influence_store import (
    InfluenceStore,
    StoredInfluence,
    array_in,
    arrays_in,
    damaged,
    summarize,
)
from midstep.server.problems import Refusal, not_found, too_large
from midstep.server.responses import BINARY, SafetensorsResponse, StrictJsonResponse
from midstep.server.step_views.step_data_json import WHOLE_UP_TO

if TYPE_CHECKING:
    import numpy as np

router = APIRouter(prefix="/api/v1/influence", tags=["influence"])
MOST_CELLS = 16_000_000
"""Most cells of a kernel that is sent: 64 MB as float32."""
_ARRAYS = "arrays.safetensors"
_WHAT_IF_NOTES = {
    True: "The preconditioner does not depend on the advantages; the change is exact to first "
    "order.",
    False: "The preconditioner is held as the true update made it; other advantages would change "
    "it as well. Momentum and decay stay.",
}


def store_of(request: Request) -> InfluenceStore:
    """The store of this app."""
    store: InfluenceStore = request.app.state.influence
    return store


def find_result(
    request: Request,
    result_id: Annotated[str, Path(description="Id as GET /api/v1/influence lists it.")],
) -> StoredInfluence:
    """The result in the address; every unknown id gets the same 404."""
    return store_of(request).get(result_id)


def find_batch(
    batch: Annotated[str, Path(description="Number of a request, or `update`.")],
) -> int | None:
    """The number of the evaluated batch; None for the update itself."""
    if batch == "update":
        return None
    if not (batch.isascii() and batch.isdigit() and len(batch) <= 3):
        raise not_found()
    return int(batch)


ResultOf = Annotated[StoredInfluence, Depends(find_result)]
BatchOf = Annotated[int | None, Depends(find_batch)]


@router.get("", response_model=InfluenceListOut)
def influence_results(request: Request) -> Response:
    """Results in the folder `influence` next to the runs of this server, newest first."""
    results = [_list_entry(stored) for stored in store_of(request).listing()]
    return StrictJsonResponse({"results": results, "total": len(results)})


def _list_entry(stored: StoredInfluence) -> dict[str, Any]:
    summary = summarize(stored)
    finished = "damaged" if summary["problem"] else "finished"
    state = finished if stored.finished else "unfinished"
    return {"id": stored.id, "made_at": stored.made_at, **summary, "state": state}


@router.get("/{result_id}", response_model=InfluenceOut)
def influence_result(request: Request, stored: ResultOf) -> Response:
    """The update with texts and weights, coverage, validation, and the list of requests."""
    return StrictJsonResponse(_result_json(stored, store_of(request).read(stored)))


@router.get("/{result_id}/{batch}", response_model=InfluenceRequestOut)
def influence_batch(request: Request, stored: ResultOf, batch: BatchOf) -> Response:
    """The evaluated sequences of one batch: Δ with its terms, and the largest contributors."""
    return StrictJsonResponse(_request_json(stored, store_of(request).read(stored), batch))


@router.get("/{result_id}/{batch}/kernel", response_model=InfluenceKernelOut, responses=BINARY)
def influence_kernel(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    format: Format = "json",  # noqa: A002 - the name on the wire
) -> Response:
    """K of all pairs: rows are evaluated sequences, columns the update. Safetensors: float32."""
    import numpy as np

    results = store_of(request).read(stored)
    kernel = _kernel_of(stored, results, batch)
    if format == "safetensors":
        return SafetensorsResponse({"kernel": kernel.astype(np.float32)}, {"result": stored.id})
    if kernel.size > WHOLE_UP_TO:
        raise too_large(f"the kernel has {kernel.size:,} cells")
    rows, columns = _rows_of(results, batch)
    return StrictJsonResponse({"rows": rows, "columns": columns, "kernel": numbers(kernel)})


@router.get("/{result_id}/{batch}/what_if", response_model=InfluenceWhatIfOut)
def influence_what_if(
    request: Request,
    stored: ResultOf,
    batch: BatchOf,
    advantages: Annotated[
        str,
        Query(max_length=4096, description="ID:NUMBER with commas: U-000-01:0.5,U-003-00:0."),
    ] = "",
) -> Response:
    """Δ under other advantages, from the stored kernel; the preconditioner stays fixed."""
    results = store_of(request).read(stored)
    return StrictJsonResponse(_what_if_json(stored, results, batch, advantages))


# -- results.json as responses, and what other advantages would have changed ----------------------


def _result_json(stored: StoredInfluence, results: Mapping[str, Any]) -> dict[str, Any]:
    """A result as `InfluenceOut`."""
    try:
        update = results["update"]
        fields = {
            "id": stored.id,
            "name": results["name"],
            "made_at": stored.made_at,
            "optimizer_step": results["step"],
            "preconditioner": results["plan"]["preconditioner"],
            "checkpoint": _last_part(results["config"].get("checkpoint", "")),
            "scheme": update["sampling"].get("scheme"),
            "algorithm": str(update["notes"].get("algorithm", "")),
            "step": InfluenceStep.pick(update["step"]),
            "coverage": update["coverage"],
            "update": [_sequence(InfluenceUpdateSequence, one) for one in update["sequences"]],
            "requests": [
                {
                    **InfluenceRequestSummary.pick(one),
                    "index": at,
                    "sequences": len(one["sequences"]),
                }
                for at, one in enumerate(results["requests"])
            ],
            "validation": _validation(results["validation"]),
        }
        return InfluenceOut.model_validate(fields).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def _request_json(
    stored: StoredInfluence, results: Mapping[str, Any], index: int | None
) -> dict[str, Any]:
    """A request as `InfluenceRequestOut`; None means the update itself."""
    try:
        request = _request(results, index)
        fields = {
            "result": stored.id,
            "index": index,
            "name": request["name"],
            "kind": request["kind"],
            "sequences": [
                _sequence(InfluenceEvaluatedSequence, {"contributors": [], **one})
                for one in request["sequences"]
            ],
            "has_kernel": _has_kernel(stored, index),
        }
        return InfluenceRequestOut.model_validate(fields).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def _rows_of(results: Mapping[str, Any], index: int | None) -> tuple[list[str], list[str]]:
    """Ids of the evaluated sequences and of the sequences of the update."""
    rows = [str(one["sequence_id"]) for one in _request(results, index)["sequences"]]
    return rows, [str(one["sequence_id"]) for one in results["update"]["sequences"]]


def _kernel_of(
    stored: StoredInfluence, results: Mapping[str, Any], index: int | None
) -> np.ndarray[Any, Any]:
    """K of all pairs as float64; a 409 if it was not stored or does not match the sequences."""
    rows, columns = _rows_of(results, index)
    if len(rows) * len(columns) > MOST_CELLS:
        raise Refusal(
            409,
            "too_large",
            f"the kernel has more than {MOST_CELLS:,} cells; read arrays.safetensors directly.",
        )
    parts, name = _kernel_file(stored, index)
    try:
        with stored.open(*parts) as file:
            kernel = array_in(file, name, most_cells=MOST_CELLS)
    except OSError:
        kernel = None
    except FormatError as error:
        raise damaged(stored, str(error)) from None
    if kernel is None:
        raise Refusal(
            409, "no_kernel", "This request has no kernel. Run the plan with full_kernel: true."
        )
    if kernel.shape != (len(rows), len(columns)):
        raise damaged(stored, f"the kernel has the shape {list(kernel.shape)}")
    return kernel


def _what_if_json(
    stored: StoredInfluence, results: Mapping[str, Any], index: int | None, advantages: str
) -> dict[str, Any]:
    """The change under other advantages as `InfluenceWhatIfOut`."""
    import numpy as np

    request = _request_json(stored, results, index)["sequences"]
    result = _result_json(stored, results)
    changed = _parse_advantages(advantages, {one["sequence_id"] for one in result["update"]})
    weights = np.array([_weight(one, changed) for one in result["update"]])
    step = result["step"]
    factor = math.prod(float(step[name]) for name in ("lr", "rate", "clip_factor"))
    moved = factor * (_kernel_of(stored, results, index) @ weights)
    was = [one["delta"] for one in request]
    # adam_post: the second moments already contain this update, so they depend on the advantages.
    is_exact = result["preconditioner"] != "adam_post"
    fields = {
        "advantages": changed,
        "sequence_ids": [one["sequence_id"] for one in request],
        "delta": [_with_kernel(one, kernel) for one, kernel in zip(was, moved, strict=True)],
        "was": was,
        "exact": is_exact,
        "note": _WHAT_IF_NOTES[is_exact],
    }
    return InfluenceWhatIfOut.model_validate(fields).model_dump()


def _parse_advantages(text: str, known: set[str]) -> dict[str, float]:
    """`U-000-01:0.5,U-003-00:0` as advantages by id."""
    advantages = {}
    for part in text.split(",") if text else ():
        name, _, value = part.rpartition(":")
        try:
            advantages[name] = float(value)
        except ValueError:
            advantages[name] = math.nan
        if name not in known or not math.isfinite(advantages[name]):
            raise Refusal(
                422,
                "invalid",
                "advantages: expected ID:NUMBER, separated by commas, with ids of the update and "
                "finite numbers",
                field="advantages",
            )
    return advantages


def _weight(one: Mapping[str, Any], changed: Mapping[str, float]) -> float:
    if one["sequence_id"] not in changed:
        return float(one["weight"])
    if one["normaliser"] is None:
        raise Refusal(
            409,
            "no_normaliser",
            f"{one['sequence_id']} was stored without its normaliser, so its weight under another "
            "advantage is not known.",
        )
    return changed[one["sequence_id"]] * float(one["normaliser"])


def _with_kernel(was: Mapping[str, Any], kernel: float) -> dict[str, Any]:
    # Momentum and decay do not depend on the weights of this batch.
    rest = sum(float(was[name] or 0.0) for name in ("momentum", "decay"))
    return {**was, "kernel": float(kernel), "total": float(kernel) + rest}


def _request(results: Mapping[str, Any], index: int | None) -> Mapping[str, Any]:
    if index is None:
        return {"name": "update", "kind": "update", "sequences": results["update"]["sequences"]}
    if index >= len(results["requests"]):
        raise not_found()
    request: Mapping[str, Any] = results["requests"][index]
    return request


def _kernel_file(stored: StoredInfluence, index: int | None) -> tuple[tuple[str, ...], str]:
    """The parts of the path of the file with the kernel, and the name of its array."""
    if index is None:
        return ("workspace", _ARRAYS), "kernel_uu"
    return ("requests", stored.request_folder(index), _ARRAYS), "kernel_eu"


def _has_kernel(stored: StoredInfluence, index: int | None) -> bool:
    try:
        parts, name = _kernel_file(stored, index)
        with stored.open(*parts) as file:
            return name in arrays_in(file)
    except (FormatError, OSError, Refusal):  # the numbers of results.json are shown anyway
        return False


def _sequence(model: type[InfluenceSequence], one: Mapping[str, Any]) -> dict[str, Any]:
    return {**model.pick(one), "delta": InfluenceDelta.pick(one["delta"])}


def _validation(validation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not validation:
        return None
    after = validation.get("after")
    if after:
        checkpoint = _last_part(after.get("checkpoint", ""))
        after = {**InfluenceAfter.pick(after), "checkpoint": checkpoint}
    return {
        "sequence_ids": validation["sequence_ids"],
        "slope": validation["slope"],
        "rates": [InfluenceRate.pick(one) for one in validation["rates"]],
        "after": after or None,
    }


def _last_part(path: Any) -> str:
    """The last part of a path: viewers do not see where files are on this machine."""
    return PurePath(str(path)).name


def _misshapen(stored: StoredInfluence, error: Exception) -> Refusal:
    cause = str(error) if isinstance(error, KeyError) else type(error).__name__
    return damaged(stored, f"results.json lacks fields of its format ({cause})")
