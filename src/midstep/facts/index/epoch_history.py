"""`EpochHistory`: the epochs of a run as a packed table, one row an epoch, one column a name.

    u32 length | JSON {"names": […], "rows": n} | f64 cells, row by row | u8 known, row by row

The first columns are `epoch`, `timeline`, `step` and `wall`. This module needs the standard library
alone.
"""

from __future__ import annotations

import json
import math
import struct
from array import array
from collections.abc import Mapping
from typing import Any

FIXED = ("epoch", "timeline", "step", "wall")
_LENGTH = struct.Struct("<I")
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class EpochHistory:
    """Rows by epoch. A record of a higher timeline replaces the row; of the same, it adds to it.

    >>> history = EpochHistory()
    >>> history.add({"epoch": 0, "timeline": 0, "step": 9, "wall": 1.0}, {"val_loss": 0.5})
    >>> EpochHistory.unpack(history.pack()).points("val_loss")
    ([9.0], [1.0], [0.5])
    """

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, record: Mapping[str, Any], values: Mapping[str, float]) -> None:
        """Add the values of an epoch record."""
        epoch, timeline = record.get("epoch"), record["timeline"]
        if not isinstance(epoch, int):
            return
        known = self._rows.get(epoch)
        if known is not None and known["timeline"] > timeline:  # replaced by a rewind already
            return
        step = record.get("step")
        fixed = {
            "epoch": float(epoch),
            "timeline": float(timeline),
            "step": float(step) if isinstance(step, int) else math.nan,
            "wall": float(record["wall"]),
        }
        same_timeline = known if known is not None and known["timeline"] == timeline else {}
        self._rows[epoch] = {**same_timeline, **fixed, **values}

    @property
    def names(self) -> list[str]:
        """Names of the columns after the fixed ones, in the order they appeared."""
        names = {name: None for row in self._rows.values() for name in row}
        return [name for name in names if name not in FIXED]

    def points(self, name: str) -> tuple[list[float], list[float], list[float]]:
        """Steps, wall times and values of a name, in the order of epochs."""
        rows = [self._rows[epoch] for epoch in sorted(self._rows) if name in self._rows[epoch]]
        steps, walls, values = ([row[key] for row in rows] for key in ("step", "wall", name))
        return steps, walls, values

    def by_epoch(self, name: str) -> dict[int, float]:
        """The values of a name by epoch, in the order of epochs."""
        return {epoch: row[name] for epoch, row in sorted(self._rows.items()) if name in row}

    def table(self) -> tuple[list[str], list[list[float]]]:
        """Names of the columns, and one list of cells for each epoch; NaN where it has no value."""
        names = [*FIXED, *self.names]
        rows = [self._rows[epoch] for epoch in sorted(self._rows)]
        return names, [[row.get(name, math.nan) for name in names] for row in rows]

    def ends(self) -> list[tuple[int, float]]:
        """(epoch, finished steps at its end) of each epoch whose steps are known."""
        known = ((epoch, self._rows[epoch]["step"]) for epoch in sorted(self._rows))
        return [(epoch, step) for epoch, step in known if not math.isnan(step)]

    def pack(self) -> bytes:
        """The history as bytes."""
        names = [*FIXED, *self.names]
        rows = [self._rows[epoch] for epoch in sorted(self._rows)]
        head = json.dumps({"names": names, "rows": len(rows)}).encode()
        # A missing cell needs a flag of its own, since NaN is a value that a loss may have.
        cells = array("d", [row.get(name, 0.0) for row in rows for name in names])
        known = bytes(name in row for row in rows for name in names)
        return _LENGTH.pack(len(head)) + head + cells.tobytes() + known

    @classmethod
    def unpack(cls, data: bytes) -> EpochHistory:
        """A history from the result of `pack`."""
        (length,) = _LENGTH.unpack_from(data)
        head = json.loads(data[4 : 4 + length])
        names = head["names"]
        start, end = 4 + length, 4 + length + 8 * head["rows"] * len(names)
        cells, known = array("d", data[start:end]), data[end:]
        history = cls()
        for at in range(0, len(cells), len(names)):
            row = {name: cells[at + i] for i, name in enumerate(names) if known[at + i]}
            history._rows[int(row["epoch"])] = row
        return history


def as_number(value: Any) -> float | None:
    """A number of a record as a float, also NaN and the infinities; None for anything else.

    >>> as_number("NaN") != as_number("NaN"), as_number(True), as_number(2)
    (True, None, 2.0)
    """
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return _SPELLED.get(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**300:
        return float(value)
    return None
