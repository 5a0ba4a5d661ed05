"""The watched rows of one named tensor, and their points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from midstep.control.watches.trajectory import Trajectory

Pair = tuple[int, int]


@dataclass(kw_only=True)
class TrackedRows:
    """One source: its watched rows, and the points of these and of formerly watched rows."""

    source: str
    watched: list[int] = field(default_factory=list)
    rows: dict[int, Trajectory] = field(default_factory=dict)
    pairs: dict[Pair, Trajectory] = field(default_factory=dict)
    """By row numbers (a, b) with a < b."""
    starts: dict[int, Any] = field(default_factory=dict)
    """Unit vectors of the rows when their watch began; used by the training thread alone."""
    exact: bool = True
    """False for a copy that was thinned."""

    def add(
        self,
        step: int,
        rows: list[int],
        to_start: list[float],
        cosines: list[list[float]],
        metrics: Mapping[str, list[float]],
    ) -> None:
        """Add a point for each of `rows` and for each pair of them."""
        for position, row in enumerate(rows):
            path = self.rows.get(row) or self.rows.setdefault(row, Trajectory("weight_cos_to_init"))
            row_metrics = {name: values[position] for name, values in metrics.items()}
            path.append(step, to_start[position], row_metrics)
        positions = sorted((row, position) for position, row in enumerate(rows))
        for (a, i), (b, j) in combinations(positions, 2):
            pair = self.pairs.get((a, b)) or self.pairs.setdefault((a, b), Trajectory("cos"))
            pair.append(step, cosines[i][j])

    def describe(self) -> dict[str, Any]:
        """All points as JSON; the key of a pair is `a,b` with a < b."""
        return {
            "watched": list(self.watched),
            "trajectories": {str(row): path.points() for row, path in self.rows.items()},
            "pairwise": {f"{a},{b}": path.points() for (a, b), path in self.pairs.items()},
        }
