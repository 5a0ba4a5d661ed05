"""Watches: rows of named tensors followed over steps, with their pairwise cosines.

Rows are read by the training thread alone; readers get copies of the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

__all__ = ["Trajectory", "WatchBoard"]

EXACT_POINTS = 10_000
Point = dict[str, float]


@dataclass(kw_only=True)
class Trajectory:
    """Points of one watched row (or one pair): exact up to 10,000, thinned beyond."""

    initial: Any = None
    """The row when the watch began."""
    points: list[Point] = field(default_factory=list)

    def append(self, point: Point) -> None:
        """Add a point; halve the older ones when there are too many."""
        self.points.append(point)
        if len(self.points) > EXACT_POINTS:
            self.points = _thinned(self.points)


def _thinned(points: list[Point]) -> list[Point]:
    """Every second point, and the first, the last and each metric's extremes besides."""
    keep = {0, len(points) - 1, *range(0, len(points), 2)}
    for name in {name for point in points for name in point if name != "step"}:
        held = [i for i, point in enumerate(points) if math.isfinite(point.get(name, math.nan))]
        if held:
            keep.add(min(held, key=lambda i: points[i][name]))
            keep.add(max(held, key=lambda i: points[i][name]))
    return [points[i] for i in sorted(keep)]


class WatchBoard:
    """Which rows are watched, and what became of them. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self.sources: dict[str, Callable[[], Any]] = {}
        self.default_source: str | None = None
        self.source: str | None = None
        self.watched: list[int] = []
        self.trajectories: dict[int, Trajectory] = {}
        self.pairwise: dict[tuple[int, int], Trajectory] = {}

    def add_source(self, name: str, read: Callable[[], Any], *, default: bool = False) -> None:
        """Offer the tensor that `read` returns; its rows can be watched."""
        self.sources[name] = read
        if default or self.default_source is None:
            self.default_source = name

    def choose(self, feature_ids: Iterable[int], source: str | None) -> None:
        """Replace the watch list. Trajectories of removed watches stay until cleared."""
        chosen = source or self.source or self.default_source
        features = list(dict.fromkeys(_checked(feature) for feature in feature_ids))
        if features and chosen not in self.sources:
            known = ", ".join(self.sources) or "none; offer one with add_source"
            raise ConfigError(f"no source {chosen!r}; there are {known}")
        if features and chosen is not None:
            self._check_rows(features, chosen)
        if chosen != self.source:
            self.clear()
        self.source, self.watched = chosen, features

    def _check_rows(self, features: list[int], source: str) -> None:
        rows = self.sources[source]().shape[0]  # a shape is read from any thread, values are not
        outside = [feature for feature in features if feature >= rows]
        if outside:
            raise ConfigError(f"{source} has {rows} rows; row {outside[0]} cannot be watched")

    def clear(self) -> None:
        """Forget all points; what is watched goes on from here."""
        self.trajectories, self.pairwise = {}, {}

    def export(self) -> dict[str, Any]:
        """All points as JSON can hold them; a pair stands under `a,b` with a < b."""
        return {
            "source": self.source,
            "watched": list(self.watched),
            "trajectories": {str(row): list(t.points) for row, t in self.trajectories.items()},
            "pairwise": {f"{a},{b}": list(t.points) for (a, b), t in self.pairwise.items()},
        }

    @property
    def waiting(self) -> bool:
        """Whether a watched row has no initial value yet."""
        return any(feature not in self.trajectories for feature in self.watched)

    def begin(self) -> None:
        """Take the initial value of rows that were just put on the list. Training thread only."""
        rows = self._rows(self.watched)
        for feature, row in zip(self.watched, rows, strict=False):
            if feature not in self.trajectories:
                self.trajectories[feature] = Trajectory(initial=row.clone())

    def record(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add a point for every watched row. Training thread only."""
        if not self.watched:
            return
        rows = self._rows(self.watched)
        unit = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-12)
        self._record_rows(step, unit, metrics)
        self._record_pairs(step, unit)

    def _rows(self, features: list[int]) -> torch.Tensor:
        """The watched rows, flattened to float64 on the CPU: [watched, row length]."""
        import torch

        if not features or self.source is None:
            return torch.empty(0, 0, dtype=torch.float64)
        tensor: torch.Tensor = self.sources[self.source]().detach()
        picked = tensor[torch.tensor(features, device=tensor.device)]
        return picked.reshape(len(features), -1).to("cpu", torch.float64)

    def _record_rows(self, step: int, unit: torch.Tensor, metrics: Mapping[str, Any]) -> None:
        for feature, row in zip(self.watched, unit, strict=True):
            trajectory = self.trajectories[feature]
            start = trajectory.initial / trajectory.initial.norm().clamp_min(1e-12)
            point: Point = {"step": step, "weight_cos_to_init": float(row @ start)}
            for name, values in metrics.items():
                if feature < len(values):
                    point[name] = float(values[feature])
            trajectory.append(point)

    def _record_pairs(self, step: int, unit: torch.Tensor) -> None:
        cosines = (unit @ unit.T).tolist()
        for i, a in enumerate(self.watched):
            for j, b in enumerate(self.watched):
                if a < b:
                    pair = self.pairwise.setdefault((a, b), Trajectory())
                    pair.append({"step": step, "cos": cosines[i][j]})


def _checked(feature: Any) -> int:
    if isinstance(feature, bool) or not isinstance(feature, int) or feature < 0:
        raise ConfigError(f"a watch needs a row number of 0 or more, got {feature!r}")
    return feature
