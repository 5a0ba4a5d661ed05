"""Stored influence results as the wire types say, and what other advantages would have done."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from midstep.core.errors import FormatError
from midstep.server.influence.influence_schemas import (
    InfluenceOut,
    InfluenceRequestOut,
    InfluenceWhatIfOut,
)
from midstep.server.influence.influence_store import StoredInfluence, array_in, arrays_in, damaged
from midstep.server.problems import Refusal, not_found

if TYPE_CHECKING:
    import numpy as np

MOST_CELLS = 16_000_000
"""Of a kernel that is sent: 64 MB in 32 bits."""
_ARRAYS = "arrays.safetensors"
_OF_ANY = ("sequence_id", "global_prompt_id", "prompt", "response", "reward", "logprob", "entropy")
_OF_UPDATE = (*_OF_ANY, "norm", "advantage", "normaliser", "weight")
_OF_EVALUATED = (*_OF_ANY, "norm", "contributors")
_TERMS = ("total", "kernel", "momentum", "decay")
_HELD = {
    True: "The preconditioner does not depend on the advantages; the change is exact to first "
    "order.",
    False: "The preconditioner is held as the true update made it; other advantages would change "
    "it as well. Momentum and decay stay.",
}


def result_json(stored: StoredInfluence, told: Mapping[str, Any]) -> dict[str, Any]:
    """A result as `InfluenceOut`."""
    try:
        update = told["update"]
        made = {
            "id": stored.id,
            "name": told["name"],
            "made_at": stored.made_at,
            "optimizer_step": told["step"],
            "preconditioner": told["plan"]["preconditioner"],
            "checkpoint": _last_part(told["config"].get("checkpoint", "")),
            "scheme": update["sampling"].get("scheme"),
            "algorithm": str(update["notes"].get("algorithm", "")),
            "step": _some(update["step"], ("lr", "rate", "clip_factor", "gradient_norm")),
            "coverage": update["coverage"],
            "update": [_sequence(one, _OF_UPDATE) for one in update["sequences"]],
            "requests": [_request_line(at, one) for at, one in enumerate(told["requests"])],
            "validation": _validation(told["validation"]),
        }
        return InfluenceOut.model_validate(made).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def request_json(
    stored: StoredInfluence, told: Mapping[str, Any], index: int | None
) -> dict[str, Any]:
    """A request as `InfluenceRequestOut`; the update itself for None."""
    try:
        request = _request(told, index)
        made = {
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
        return InfluenceRequestOut.model_validate(made).model_dump()
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        raise _misshapen(stored, error) from None


def rows_of(told: Mapping[str, Any], index: int | None) -> tuple[list[str], list[str]]:
    """Ids of the evaluated sequences and of the update's."""
    rows = [str(one["sequence_id"]) for one in _request(told, index)["sequences"]]
    return rows, [str(one["sequence_id"]) for one in told["update"]["sequences"]]


def kernel_of(
    stored: StoredInfluence, told: Mapping[str, Any], index: int | None
) -> np.ndarray[Any, Any]:
    """K of all pairs in 64 bits; 409 where it was not kept or does not fit the sequences."""
    rows, columns = rows_of(told, index)
    if len(rows) * len(columns) > MOST_CELLS:
        raise Refusal(
            409,
            "too_large",
            f"the kernel has more than {MOST_CELLS:,} cells; read its file itself.",
        )
    place, name = _place(stored, index)
    try:
        with stored.open(*place) as file:
            found = array_in(file, name, most_cells=MOST_CELLS)
    except OSError:
        found = None
    except FormatError as error:
        raise damaged(stored, str(error)) from None
    if found is None:
        raise Refusal(
            409, "no_kernel", "This request kept no kernel. Run the plan with full_kernel: true."
        )
    if found.shape != (len(rows), len(columns)):
        raise damaged(stored, f"the kernel is of shape {list(found.shape)}")
    return found


def what_if_json(
    stored: StoredInfluence, told: Mapping[str, Any], index: int | None, asked: str
) -> dict[str, Any]:
    """The change under other advantages as `InfluenceWhatIfOut`."""
    import numpy as np

    request = request_json(stored, told, index)["sequences"]
    result = result_json(stored, told)
    changed = _asked(asked, {one["sequence_id"] for one in result["update"]})
    weights = np.array([_weight(one, changed) for one in result["update"]])
    step = result["step"]
    factor = math.prod(float(step[name]) for name in ("lr", "rate", "clip_factor"))
    moved = factor * (kernel_of(stored, told, index) @ weights)
    was = [one["delta"] for one in request]
    made = {
        "advantages": changed,
        "sequence_ids": [one["sequence_id"] for one in request],
        "delta": [_with_kernel(one, kernel) for one, kernel in zip(was, moved, strict=True)],
        "was": was,
        "exact": result["preconditioner"] != "adam_post",
        "note": _HELD[result["preconditioner"] != "adam_post"],
    }
    return InfluenceWhatIfOut.model_validate(made).model_dump()


def _asked(text: str, known: set[str]) -> dict[str, float]:
    """`U-000-01:0.5,U-003-00:0` as advantages by id."""
    found = {}
    for part in text.split(",") if text else ():
        name, _, value = part.rpartition(":")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if name not in known or not math.isfinite(found[name]):
            raise Refusal(
                422,
                "invalid",
                "advantages: give ID:NUMBER with commas between, ids of the update, numbers finite",
                field="advantages",
            )
    return found


def _weight(one: Mapping[str, Any], changed: Mapping[str, float]) -> float:
    if one["sequence_id"] not in changed:
        return float(one["weight"])
    if one["normaliser"] is None:
        raise Refusal(
            409,
            "no_normaliser",
            f"{one['sequence_id']} was stored without its normaliser, so an advantage gives no "
            "weight.",
        )
    return changed[one["sequence_id"]] * float(one["normaliser"])


def _with_kernel(was: Mapping[str, Any], kernel: float) -> dict[str, Any]:
    rest = sum(float(was[name] or 0.0) for name in ("momentum", "decay"))
    return {**was, "kernel": float(kernel), "total": float(kernel) + rest}


def _request(told: Mapping[str, Any], index: int | None) -> Mapping[str, Any]:
    if index is None:
        return {"name": "update", "kind": "update", "sequences": told["update"]["sequences"]}
    if index >= len(told["requests"]):
        raise not_found()
    found: Mapping[str, Any] = told["requests"][index]
    return found


def _request_line(at: int, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "index": at,
        "name": one["name"],
        "kind": one["kind"],
        "sequences": len(one["sequences"]),
    }


def _place(stored: StoredInfluence, index: int | None) -> tuple[tuple[str, ...], str]:
    if index is None:
        return ("workspace", _ARRAYS), "kernel_uu"
    return ("requests", stored.request_folder(index), _ARRAYS), "kernel_eu"


def _has_kernel(stored: StoredInfluence, index: int | None) -> bool:
    try:
        place, name = _place(stored, index)
        with stored.open(*place) as file:
            return name in arrays_in(file)
    except (FormatError, OSError, Refusal):  # the numbers in results.json are shown all the same
        return False


def _sequence(one: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    delta = {name: one["delta"].get(name) for name in _TERMS}
    return {**{name: one.get(name) for name in names}, "delta": delta}


def _some(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in names}


def _validation(told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if not told:
        return None
    both = ("relative_error", "correlation", "predicted", "actual")
    after = told.get("after")
    return {
        "sequence_ids": told["sequence_ids"],
        "slope": told["slope"],
        "rates": [_some(one, ("lr", *both)) for one in told["rates"]],
        "after": {**_some(after, both), "checkpoint": _last_part(after.get("checkpoint", ""))}
        if after
        else None,
    }


def _last_part(path: Any) -> str:
    """Where things lie on this machine is nobody's business."""
    return PurePath(str(path)).name


def _misshapen(stored: StoredInfluence, error: Exception) -> Refusal:
    named = str(error) if isinstance(error, KeyError) else type(error).__name__
    return damaged(stored, f"results.json lacks parts of its format ({named})")
