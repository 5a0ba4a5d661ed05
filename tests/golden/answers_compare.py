"""Compare recorded answers with present ones: nothing may be missing or changed."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["changes"]


def changes(old: Any, new: Any, where: str = "", *, tolerance: float = 0.0) -> list[str]:
    """What `old` has and `new` lacks or has otherwise, one line each; new fields are allowed.

    Args:
        old: the recorded answer, as JSON gives it.
        new: the present one; tuples are compared as lists.
        where: how the lines begin.
        tolerance: relative, for floats that are computed anew on this processor.

    >>> changes({"a": 1, "b": [1]}, {"a": 2, "b": [1], "c": 3})
    ['.a: was 1, is 2']
    """
    if isinstance(old, dict) and isinstance(new, dict):
        lost = [f"{where}.{name}: missing" for name in old if str(name) not in map(str, new)]
        named = {str(name): value for name, value in new.items()}
        for name, value in old.items():
            if name in named:
                lost += changes(value, named[name], f"{where}.{name}", tolerance=tolerance)
        return lost
    if isinstance(old, list) and isinstance(new, list | tuple):
        if len(old) != len(new):
            return [f"{where}: had {len(old)} entries, has {len(new)}"]
        return [
            line
            for at, (before, after) in enumerate(zip(old, new, strict=True))
            for line in changes(before, after, f"{where}[{at}]", tolerance=tolerance)
        ]
    return [] if _same(old, new, tolerance) else [f"{where}: was {old!r}, is {new!r}"]


def _same(old: Any, new: Any, tolerance: float) -> bool:
    if type(old) is not type(new):  # 1, 1.0 and True are different answers
        return False
    if isinstance(old, float) and tolerance:
        return math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return bool(old == new)
