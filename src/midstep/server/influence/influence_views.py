"""Stored influence results as responses, and what other advantages would have changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
from pydantic import ValidationError

from midstep.core.errors import FormatError
from midstep.server.influence.influence_schemas import (
    InfluenceOut,
    InfluenceRequestOut,
    InfluenceWhatIfOut,
)
from midstep.server.influence.influence_store import StoredInfluence, array_in, arrays_in, damaged
from midstep.server.problems import Refusal, not_found

MOST_CELLS = 16_000_000
"""Most cells of a kernel that is sent: 64 MB as float32."""
_ARRAYS = "arrays.safetensors"
_OF_ANY = ("sequence_id", "global_prompt_id", "prompt", "response", "reward", "logprob", "entropy")
_OF_UPDATE = (*_OF_ANY, "norm", "advantage", "normaliser", "weight")
_OF_EVALUATED = (*_OF_ANY, "norm", "contributors")
_TERMS = ("total", "kernel", "momentum", "decay")
_WHAT_IF_NOTES = {
    True: "The preconditioner does not depend on the advantages; the change is exact to first "
    "order.",
    False: "The preconditioner is held as the true update made it; other advantages would change "
    "it as well. Momentum and decay stay.",
}


def result_json(stored: StoredInfluence, results: Mapping[str, Any]) -> dict[str, Any]:
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
            "step": _select(update["step"], ("lr", "rate", "clip_factor", "gradient_norm")),
            "coverage": update["coverage"],
            "update": [_sequence(one, _OF_UPDATE) for one in update["sequences"]],
            "requests": [_request_line(at, one) for at, one in enumerate(results["requests"])],
            "validation": _validation(results["validation"]),
        }
        return InfluenceOut.model_validate(fields).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def request_json(
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
                _sequence({"contributors": [], **one}, _OF_EVALUATED)
                for one in request["sequences"]
            ],
            "has_kernel": _has_kernel(stored, index),
        }
        return InfluenceRequestOut.model_validate(fields).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def rows_of(results: Mapping[str, Any], index: int | None) -> tuple[list[str], list[str]]:
    """Ids of the evaluated sequences and of the sequences of the update."""
    rows = [str(one["sequence_id"]) for one in _request(results, index)["sequences"]]
    return rows, [str(one["sequence_id"]) for one in results["update"]["sequences"]]


def kernel_of(
    stored: StoredInfluence, results: Mapping[str, Any], index: int | None
) -> np.ndarray[Any, Any]:
    """K of all pairs as float64; a 409 if it was not stored or does not match the sequences."""
    rows, columns = rows_of(results, index)
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


def what_if_json(
    stored: StoredInfluence, results: Mapping[str, Any], index: int | None, advantages: str
) -> dict[str, Any]:
    """The change under other advantages as `InfluenceWhatIfOut`."""
    request = request_json(stored, results, index)["sequences"]
    result = result_json(stored, results)
    changed = _parse_advantages(advantages, {one["sequence_id"] for one in result["update"]})
    weights = np.array([_weight(one, changed) for one in result["update"]])
    step = result["step"]
    factor = math.prod(float(step[name]) for name in ("lr", "rate", "clip_factor"))
    moved = factor * (kernel_of(stored, results, index) @ weights)
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


def _request_line(at: int, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "index": at,
        "name": one["name"],
        "kind": one["kind"],
        "sequences": len(one["sequences"]),
    }


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


def _sequence(one: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    delta = {name: one["delta"].get(name) for name in _TERMS}
    return {**{name: one.get(name) for name in names}, "delta": delta}


def _select(fields: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: fields[name] for name in names}


def _validation(validation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not validation:
        return None
    both = ("relative_error", "correlation", "predicted", "actual")
    after = validation.get("after")
    return {
        "sequence_ids": validation["sequence_ids"],
        "slope": validation["slope"],
        "rates": [_select(one, ("lr", *both)) for one in validation["rates"]],
        "after": {**_select(after, both), "checkpoint": _last_part(after.get("checkpoint", ""))}
        if after
        else None,
    }


def _last_part(path: Any) -> str:
    """The last part of a path: viewers do not see where files are on this machine."""
    return PurePath(str(path)).name


def _misshapen(stored: StoredInfluence, error: Exception) -> Refusal:
    cause = str(error) if isinstance(error, KeyError) else type(error).__name__
    return damaged(stored, f"results.json lacks fields of its format ({cause})")
