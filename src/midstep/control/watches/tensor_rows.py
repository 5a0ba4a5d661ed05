"""Rows of tensors: found in the step data, read as unit vectors, with the metrics beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from midstep.control.capture.capture_store import as_float
from midstep.control.watches.trajectory import MAX_METRICS, NAN

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

MAX_NAMES = 1024
"""A mapping pushed as step data is looked through for so many entries."""
TINY = 1e-12
OWN_NAMES = frozenset({"step", "weight_cos_to_init"})


def tensor_names(key: str, value: Any) -> list[str]:
    """Names of the matrices in one entry of the step data: `key`, or `key.name` in a mapping.

    >>> tensor_names("loss", 0.5)
    []
    """
    if _is_matrix(value):
        return [key]
    return [f"{key}.{name}" for name, held in _entries(value) if _is_matrix(held)]


def find_tensor(step_data: Mapping[str, Any], name: str) -> Any:
    """The matrix of that name in the step data, or None."""
    if _is_matrix(found := step_data.get(name)):
        return found
    pieces = name.split(".")
    for cut in range(1, len(pieces)):
        held = step_data.get(".".join(pieces[:cut]))
        if isinstance(held, Mapping) and _is_matrix(found := held.get(".".join(pieces[cut:]))):
            return found
    return None


def _is_matrix(value: Any) -> bool:
    return getattr(value, "ndim", None) == 2 and hasattr(value, "shape")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        entries = islice(list(value.items()), MAX_NAMES)
        yield from ((name, held) for name, held in entries if isinstance(name, str))


def unit_rows(tensor: Any, rows: Sequence[int]) -> Floats:
    """Those rows flattened to length one: [rows, row length]."""
    import numpy as np

    picked = _copy_rows(tensor, rows).reshape(len(rows), -1).astype(np.float64)
    with np.errstate(all="ignore"):  # rows may hold NaN or the infinities, and so do cosines then
        lengths = np.sqrt(np.einsum("ij,ij->i", picked, picked))
        return np.asarray(picked / np.maximum(lengths, TINY)[:, None])


def _copy_rows(tensor: Any, rows: Sequence[int]) -> npt.NDArray[Any]:
    """A copy of those rows, in numpy: waking torch's threads each step would cost far more."""
    import numpy as np
    import torch

    whole = torch.as_tensor(tensor).detach()
    is_short = whole.is_floating_point() and whole.element_size() < 4  # numpy has no bfloat16
    if whole.device.type == "cpu" and not is_short:
        return np.asarray(whole.numpy()[list(rows)])
    held = whole.index_select(0, torch.tensor(rows, device=whole.device)).cpu()
    return np.asarray((held.float() if is_short else held).numpy())


def row_cosines(unit: Floats, starts: Sequence[Floats]) -> tuple[list[float], list[list[float]]]:
    """Of each row to its start, and of every pair of rows."""
    import numpy as np

    with np.errstate(all="ignore"):
        to_start = np.einsum("ij,ij->i", unit, np.stack(starts))
        return to_start.tolist(), (unit @ unit.T).tolist()


def row_metrics(
    step_data: Mapping[str, Any], rows: Sequence[int], count: int
) -> dict[str, list[float]]:
    """What this step's data says of those rows: vectors with one value for each of `count` rows."""
    metrics: dict[str, list[float]] = {}
    for value in step_data.values():
        for name, held in _entries(value):
            if name in OWN_NAMES or getattr(held, "ndim", None) != 1 or len(held) != count:
                continue
            if (values := _pick_floats(held, rows)) is not None and len(metrics) < MAX_METRICS:
                metrics[name] = values
    return metrics


def _pick_floats(vector: Any, rows: Sequence[int]) -> list[float] | None:
    try:
        picked = vector[rows].tolist()
    except Exception:  # noqa: BLE001 - a tensor without values, or a type of the user's: no metric
        return None
    floats = (as_float(value) for value in picked)
    return [NAN if value is None else value for value in floats]
