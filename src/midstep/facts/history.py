"""What the epochs of a run came to, packed: a row an epoch, a column a name.

    u32 length | JSON {"names": […], "rows": n} | f64 cells, row by row | u8 known, row by row

The first columns are `epoch`, `timeline`, `step` and `wall`. Needs the standard library alone, so
that lists do; whoever wants arrays makes them of the same bytes.
"""

from __future__ import annotations

import json
import math
import struct
from array import array
from collections.abc import Mapping
from typing import Any

__all__ = ["FIXED", "EpochHistory"]

FIXED = ("epoch", "timeline", "step", "wall")
_LENGTH = struct.Struct("<I")
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class EpochHistory:
    """Rows by epoch; a record of a higher timeline replaces the row, one of the same completes it.

    >>> history = EpochHistory()
    >>> history.take({"epoch": 0, "timeline": 0, "step": 9, "wall": 1.0}, {"val_loss": 0.5})
    >>> EpochHistory.unpack(history.pack()).points("val_loss")
    ([9.0], [1.0], [0.5])
    """

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, record: Mapping[str, Any], values: Mapping[str, float]) -> None:
        """Take in an epoch record: where it stands, and what it says."""
        epoch, timeline = record.get("epoch"), record["timeline"]
        if not isinstance(epoch, int):
            return
        known = self._rows.get(epoch)
        if known is not None and known["timeline"] > timeline:
            return
        step = record.get("step")
        place = {
            "epoch": float(epoch),
            "timeline": float(timeline),
            "step": float(step) if isinstance(step, int) else math.nan,
            "wall": float(record["wall"]),
        }
        if known is None or known["timeline"] < timeline:
            self._rows[epoch] = {**place, **values}
        else:
            known.update(place)
            known.update(values)

    @property
    def names(self) -> list[str]:
        """Names of the columns behind the fixed ones, in the order they appeared."""
        found = {name: None for row in self._rows.values() for name in row}
        return [name for name in found if name not in FIXED]

    def points(self, name: str) -> tuple[list[float], list[float], list[float]]:
        """Steps, wall times and values of a name, in the order of epochs."""
        rows = [self._rows[epoch] for epoch in sorted(self._rows) if name in self._rows[epoch]]
        return (
            [row["step"] for row in rows],
            [row["wall"] for row in rows],
            [row[name] for row in rows],
        )

    def ends(self) -> list[tuple[int, float]]:
        """Each epoch with the steps that were finished when it ended, where that is known."""
        known = ((epoch, self._rows[epoch]["step"]) for epoch in sorted(self._rows))
        return [(epoch, step) for epoch, step in known if not math.isnan(step)]

    def pack(self) -> bytes:
        """All of it as bytes."""
        names = [*FIXED, *self.names]
        rows = [self._rows[epoch] for epoch in sorted(self._rows)]
        head = json.dumps({"names": names, "rows": len(rows)}).encode()
        cells = array("d", [row.get(name, 0.0) for row in rows for name in names])
        known = bytes(name in row for row in rows for name in names)
        return _LENGTH.pack(len(head)) + head + cells.tobytes() + known

    @classmethod
    def unpack(cls, data: bytes) -> EpochHistory:
        """What `pack` gave."""
        made = cls()
        names, rows, cells, known = parts(data)
        width = len(names)
        for start in range(0, rows * width, width):
            row = {
                name: cells[start + place]
                for place, name in enumerate(names)
                if known[start + place]
            }
            made._rows[int(row["epoch"])] = row
        return made


def parts(data: bytes) -> tuple[list[str], int, array[float], bytes]:
    """Names, number of rows, cells and which are known."""
    (length,) = _LENGTH.unpack_from(data)
    head = json.loads(data[4 : 4 + length])
    names, rows = list(head["names"]), int(head["rows"])
    cells = array("d")
    end = 4 + length + 8 * rows * len(names)
    cells.frombytes(data[4 + length : end])
    return names, rows, cells, data[end:]


def as_number(value: Any) -> float | None:
    """A number of a record as a float, NaN and the infinities too; None for anything else.

    >>> as_number("NaN") != as_number("NaN"), as_number(True), as_number(2)
    (True, None, 2.0)
    """
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        return _SPELLED.get(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None
