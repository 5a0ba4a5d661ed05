"""Numbers, times and tables as plain text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from midstep.cli.output.terminal_escape import one_line


def format_number(value: Any) -> str:
    """A float with five digits; an integer with commas.

    >>> format_number(0.0029448012523353100), format_number(10000), format_number(3e-9)
    ('0.0029448', '10,000', '3e-09')
    """
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.5g}"


def format_duration(seconds: float) -> str:
    """A duration as h:mm:ss.

    >>> format_duration(83)
    '0:01:23'
    """
    if not seconds < 1e15:  # infinite, NaN, or longer than there are years
        return "?"
    whole = max(0, round(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def format_bytes(count: int | None) -> str:
    """A size with three digits; empty if it is not known.

    >>> format_bytes(999), format_bytes(1_419_216), format_bytes(None)
    ('999 B', '1.42 MB', '')
    """
    if count is None:
        return ""
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{count} B" if units[0] == "B" else f"{value:.3g} {units[0]}"


def format_time(wall: float | None) -> str:
    """A wall time in UTC with seconds; `?` if the calendar does not have it.

    >>> format_time(0.0), format_time(1e308)
    ('1970-01-01 00:00:00Z', '?')
    """
    if not isinstance(wall, int | float):
        return ""
    try:
        return f"{datetime.fromtimestamp(wall, UTC):%Y-%m-%d %H:%M:%S}Z"
    except (OverflowError, ValueError, OSError):  # beyond the year 9999
        return "?"


def align_columns(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Rows as lines with aligned columns. No line is cut, also if it is wider than the screen.

    Args:
        rows: rows of equal length.
        right: indices of the columns to align to the right.

    >>> align_columns([("name", "value"), ("loss", "0.5")], right=(1,))
    ['name  value', 'loss    0.5']
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(_cells(row, widths, right)).rstrip() for row in shown]


def _cells(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> list[str]:
    return [
        cell.rjust(width) if index in right else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
