"""Step data as JSON of bounded size; a note says what was shortened or converted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

from midstep.control.panels import Panel, panel_problem
from midstep.core import strict_json
from midstep.server.array_json import (
    all_finite,
    as_array,
    dtype_name,
    is_tensor,
    join_pointer,
    nonfinite_pointers,
    numbers,
    shape_of,
)

SUMMARISED_BEYOND = 65_536
"""Tensors of more elements are summarised, unless `full` is given."""
WHOLE_UP_TO = 4_000_000
"""Most elements of a JSON response, also with `full`; more are sent as safetensors."""
# Bounds of what a hook may push: the request must end, and the page must be able to show it.
MAX_DEPTH = 16
MAX_ITEMS = 65_536
MAX_TEXT = 65_536
MAX_TENSORS = 1024
_CHUNK = 1 << 20


def encode_step_data(value: Any, *, full: bool = False) -> dict[str, Any]:
    """Return `data`, `summarised` and `note` of one entry, and `nonfinite` if there is any.

    >>> encode_step_data({"rate": 0.5, "when": 1j})
    {'data': {'rate': 0.5, 'when': {'re': 0.0, 'im': 1.0}}, 'summarised': False, 'note': None}
    """
    encoder = _Encoder(full=full)
    data = encoder.encode(value, (), "/data")
    note = "; ".join(encoder.notes) or None
    encoded = {"data": data, "summarised": encoder.summarised, "note": note}
    return encoded | ({"nonfinite": encoder.nonfinite} if encoder.nonfinite else {})


class _Encoder:
    """One walk over a value, with a budget of items and notes of what was changed."""

    def __init__(self, *, full: bool) -> None:
        self.full = full
        self.summarised = False
        self.notes: dict[str, None] = {}
        self.nonfinite: list[str] = []
        """JSON pointers of non-finite numbers, which JSON holds as strings."""
        self.items_left = MAX_ITEMS
        self.elements_left = WHOLE_UP_TO

    def encode(self, value: Any, above: tuple[int, ...], path: str) -> Any:
        """Return `value` as JSON.

        Args:
            value: anything that a hook captured.
            above: ids of the containers around it, to detect a container inside itself.
            path: JSON pointer of the value in the response.
        """
        if isinstance(value, float) and not math.isfinite(value):
            self.nonfinite.append(path)
        if value is None or isinstance(value, bool | float):
            return strict_json.plain(value)
        if isinstance(value, int):
            return self._integer(value)
        if isinstance(value, str):
            return self._text(value)
        if is_tensor(value):
            return self._tensor(value, path)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._container(value, above, path)
        return self._other(value, path)

    def _note(self, text: str) -> None:
        if len(self.notes) < 16:
            self.notes.setdefault(text)

    def _integer(self, value: int) -> Any:
        # Pages parse numbers as float64, which ends at 2^1024.
        if value.bit_length() <= 1024:
            return int(value)
        self._note("an integer of more than 1,024 bits is shown as its first hexadecimal digits")
        return hex(value)[:64] + "…"

    def _text(self, value: str) -> str:
        if len(value) > MAX_TEXT:
            self._note(f"a text of {len(value):,} characters was cut at {MAX_TEXT:,}")
        return str(strict_json.plain(value[:MAX_TEXT]))

    def _tensor(self, value: Any, path: str) -> Any:
        elements = math.prod(shape_of(value))
        whole = elements <= (self.elements_left if self.full else SUMMARISED_BEYOND)
        if self.full and not whole:
            self._note("too many elements for JSON; request format=safetensors")
        try:
            array = as_array(value)
            if not whole or elements > self.elements_left:
                self.summarised = True
                summary = summarise(array, dtype_name(value))
                self.nonfinite += nonfinite_pointers(summary, path)
                return summary
        except (TypeError, RuntimeError) as error:
            self._note(f"not shown: {error}")
            return {"shape": shape_of(value), "dtype": dtype_name(value)}
        self.elements_left -= elements
        return self._values(array, path)

    def _values(self, array: Any, path: str) -> Any:
        if array.dtype.kind == "c":
            return {
                "re": self._values(array.real, f"{path}/re"),
                "im": self._values(array.imag, f"{path}/im"),
            }
        if array.dtype.kind not in "biuf":
            return self.encode(array.tolist(), (), path)
        if array.dtype.kind == "f" and not all_finite(array):
            # One pointer for the whole array: one per element could be larger than the data.
            self.nonfinite.append(path)
        return numbers(array.reshape(1))[0] if array.ndim == 0 else numbers(array)

    def _container(self, value: Any, above: tuple[int, ...], path: str) -> Any:
        if id(value) in above:
            self._note("a container contains itself; it is shown once")
            return "<itself>"
        if len(above) >= MAX_DEPTH:
            self._note(f"cut at a depth of {MAX_DEPTH}")
            return "<deeper>"
        inside = (*above, id(value))
        if isinstance(value, Mapping):
            texts = {key: self._text(str(key)) for key in self._some(value)}
            return {
                text: self.encode(value[key], inside, join_pointer(path, text))
                for key, text in texts.items()
            }
        return [
            self.encode(item, inside, f"{path}/{index}")
            for index, item in enumerate(self._some(value))
        ]

    def _some(self, items: Any) -> Sequence[Any]:
        """As many items as the budget still allows."""
        shown = list(items)[: max(self.items_left, 0)]
        self.items_left -= len(shown)
        if len(shown) < len(items):
            self._note(f"only {MAX_ITEMS:,} items are shown")
        return shown

    def _other(self, value: Any, path: str) -> Any:
        if isinstance(value, complex):
            return {
                "re": self.encode(value.real, (), f"{path}/re"),
                "im": self.encode(value.imag, (), f"{path}/im"),
            }
        if isinstance(value, bytes | bytearray | memoryview):
            self._note("of bytes the first 64 are shown, in hexadecimal")
            return {"bytes": len(value), "start": bytes(value[:64]).hex()}
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, timedelta):
            return value.total_seconds()
        if hasattr(value, "item") and hasattr(value, "dtype"):  # a numpy scalar
            return self.encode(value.item(), (), path)
        return self._foreign(value)

    def _foreign(self, value: Any) -> str:
        kind = type(value).__name__
        self._note(f"a {kind} is shown as text")
        try:
            return str(strict_json.plain(repr(value)[:1000]))
        except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything
            return f"<{kind}, whose repr raised {type(error).__name__}>"


def hint_fields(panel: Panel | None, value: Any, encoded: dict[str, Any]) -> dict[str, Any]:
    """The fields `panel`, `fits` and `note`. A panel that does not fit the data is not an error."""
    if panel is None:
        return {"panel": None, "fits": True}
    try:
        reason = panel_problem(panel, value)
    except Exception as error:  # noqa: BLE001 - the data may be an object of the user's code
        reason = f"the panel could not be checked: {type(error).__name__}"
    notes = [note for note in (encoded["note"], reason) if note is not None]
    return {
        "panel": panel.describe(),
        "fits": reason is None,
        "note": "; ".join(notes) or None,
    }


def summarise(array: Any, dtype: str) -> dict[str, Any]:
    """The fields of `TensorSummary`, computed in chunks so that a huge tensor is not copied."""
    import numpy as np

    finite, total, squares, low, high = 0, 0.0, 0.0, math.inf, -math.inf
    flat = array.reshape(-1)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _CHUNK):
            chunk = flat[start : start + _CHUNK]
            values = (np.abs(chunk) if array.dtype.kind == "c" else chunk).astype(np.float64)
            values = values[np.isfinite(values)]
            if values.size == 0:
                continue
            mean = float(values.mean())
            # Chan et al. (1979): mean and squared deviations of two parts give those of the union.
            delta = mean - (total / finite if finite else mean)
            joined = finite + values.size
            squares += float(((values - mean) ** 2).sum())
            squares += delta * delta * finite * values.size / joined
            total, finite = total + float(values.sum()), joined
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    return {
        "summary": True,
        "shape": shape_of(array),
        "dtype": dtype,
        "elements": int(flat.size),
        "finite": finite,
        "mean": total / finite if finite else None,
        "std": math.sqrt(squares / finite) if finite else None,
        "min": low if finite else None,
        "max": high if finite else None,
    }


def tensors_within(value: Any, name: str) -> dict[str, Any]:
    """Every tensor in `value` by dotted name, for safetensors; at most 1,024 of them."""
    tensors: dict[str, Any] = {}
    _collect(value, name, tensors, set(), 0)
    return tensors


def _collect(value: Any, name: str, tensors: dict[str, Any], seen: set[int], depth: int) -> None:
    """Add the tensors inside `value`; `seen` has the ids of the containers already walked."""
    if is_tensor(value):
        if len(tensors) < MAX_TENSORS and fits_safetensors(value):
            tensors[name] = value
        return
    if depth >= MAX_DEPTH or id(value) in seen or not isinstance(value, Mapping | list | tuple):
        return
    seen.add(id(value))
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for key, item in items:
        _collect(item, f"{name}.{key}", tensors, seen, depth + 1)


def fits_safetensors(value: Any) -> bool:
    """Whether safetensors can hold the tensor: dense real numbers of at most eight bytes."""
    try:
        dtype = as_array(value).dtype
    except (TypeError, RuntimeError):
        return False
    return dtype.kind in "biuf" and dtype.itemsize <= 8
