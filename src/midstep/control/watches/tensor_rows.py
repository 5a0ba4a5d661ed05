"""Find a tensor in the step data, and read its rows as unit vectors and their metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from midstep.control.capture.captured_data import as_float
from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.watches.trajectory import MAX_METRICS, NAN

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

MAX_NAMES = 1024
"""Entries of a mapping in the step data that are searched for matrices."""
TINY = 1e-12
RESERVED_NAMES = frozenset({"step", "weight_cos_to_init"})
"""Fields of a point, so a metric cannot have these names."""


def tensor_names(key: str, value: Any) -> list[str]:
    """Names of the matrices in one entry of the step data: `key`, or `key.name` in a mapping.

    >>> tensor_names("loss", 0.5)
    []
    """
    if _is_matrix(value):
        return [key]
    if isinstance(value, DeferredColumns):  # columns only, which a reader computes
        return []
    return [f"{key}.{name}" for name, held in _entries(value) if _is_matrix(held)]


def find_tensor(step_data: Mapping[str, Any], name: str) -> Any:
    """The matrix of that name in the step data, or None."""
    return find_entry(step_data, name, _is_matrix)


def find_entry(step_data: Mapping[str, Any], name: str, accepts: Callable[[Any], bool]) -> Any:
    """The entry `key`, or `key.name` inside a mapping, that `accepts` allows; None if none does."""
    if accepts(entry := step_data.get(name)):
        return entry
    # Keys and names may hold dots themselves, as names of parameters do: every cut is tried.
    pieces = name.split(".")
    for cut in range(1, len(pieces)):
        value = step_data.get(".".join(pieces[:cut]))
        if isinstance(value, Mapping) and accepts(entry := value.get(".".join(pieces[cut:]))):
            return entry
    return None


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor or an array."""
    return hasattr(value, "shape")


def _is_matrix(value: Any) -> bool:
    return getattr(value, "ndim", None) == 2 and is_tensor(value)


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        entries = islice(list(value.items()), MAX_NAMES)
        yield from ((name, held) for name, held in entries if isinstance(name, str))


def unit_rows(tensor: Any, rows: Sequence[int]) -> Floats:
    """These rows, each flattened and divided by its norm: [rows, row length], float64."""
    import numpy as np

    picked = _copy_rows(tensor, rows).reshape(len(rows), -1).astype(np.float64)
    with np.errstate(all="ignore"):  # rows with NaN or infinities give NaN cosines
        lengths = np.sqrt(np.einsum("ij,ij->i", picked, picked))
        return np.asarray(picked / np.maximum(lengths, TINY)[:, None])


def _copy_rows(tensor: Any, rows: Sequence[int]) -> npt.NDArray[Any]:
    """A copy of these rows in numpy."""
    # In numpy: waking the threads of torch in each step would cost far more than the work itself.
    import numpy as np
    import torch

    whole = torch.as_tensor(tensor).detach()
    is_short = whole.is_floating_point() and whole.element_size() < 4  # numpy has no bfloat16
    if whole.device.type == "cpu" and not is_short:
        return np.asarray(whole.numpy()[list(rows)])
    held = whole.index_select(0, torch.tensor(rows, device=whole.device)).cpu()
    return np.asarray((held.float() if is_short else held).numpy())


def row_cosines(unit: Floats, starts: Sequence[Floats]) -> tuple[list[float], list[list[float]]]:
    """The cosine of each row to its start, and of every pair of rows."""
    import numpy as np

    with np.errstate(all="ignore"):
        to_start = np.einsum("ij,ij->i", unit, np.stack(starts))
        return to_start.tolist(), (unit @ unit.T).tolist()


def row_metrics(
    step_data: Mapping[str, Any], rows: Sequence[int], count: int
) -> dict[str, list[float]]:
    """Values of these rows in every vector of the step data that has one value for each row."""
    metrics: dict[str, list[float]] = {}
    for value in step_data.values():
        for name, held in _entries(value):
            if name in RESERVED_NAMES or getattr(held, "ndim", None) != 1 or len(held) != count:
                continue
            if (values := _pick_floats(held, rows)) is not None and len(metrics) < MAX_METRICS:
                metrics[name] = values
    return metrics


def _pick_floats(vector: Any, rows: Sequence[int]) -> list[float] | None:
    try:
        picked = vector[rows].tolist()
    except Exception:  # noqa: BLE001 - a tensor on `meta`, or a type of the user: no metric
        return None
    floats = (as_float(value) for value in picked)
    return [NAN if value is None else value for value in floats]
