"""The controller of a run that is over, or out of reach: it shows what its facts and files hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.control import DebugController
from midstep.control.capture.weight_changes import WeightChange, WeightChanges
from midstep.control.control_state import ControlState
from midstep.control.watches.row_tracker import Watches
from midstep.control.watches.trajectory import Trajectory
from midstep.control.watches.watch_list import TrackedRows
from midstep.core.errors import ConfigError, ControlError
from midstep.server.runs.stored_weights import StoredWeights

POINT_FIELDS = frozenset({"step", "weight_cos_to_init", "cos"})


class StoredController(DebugController):
    """Answers as the run would if it were parked at its last step.

    Args:
        weights: of its newest checkpoint.
        features: columns of one value per row of the first tensor, from the facts.
    """

    def __init__(self, weights: StoredWeights, features: Mapping[str, Any]) -> None:
        super().__init__()
        self.watches = _StoredWatches(self._state, weights, features)
        self.weight_changes = _StoredWeightChanges(self._state, weights, features)

    def put_trajectories(self, kept: Mapping[str, Any]) -> None:
        """Show the points that the run kept as an artifact."""
        board = self._state.watch_list
        each = {str(kept.get("source") or ""): kept, **dict(kept.get("others") or {})}
        board.tracked = {
            source: _followed(source, found) for source, found in each.items() if source
        }
        board.chosen_source = next(iter(board.tracked), None)


class _StoredWatches(Watches):
    """Offers the tensors of the newest checkpoint."""

    def __init__(
        self, state: ControlState, weights: StoredWeights, features: Mapping[str, Any]
    ) -> None:
        super().__init__(state)
        self._stored, self._features = weights, features

    @property
    def sources(self) -> list[str]:
        """Tensors of the newest checkpoint."""
        return _with_features_first(self._stored, self._features)


class _StoredWeightChanges(WeightChanges):
    """Of the last step only the weights after it are known."""

    def __init__(
        self, state: ControlState, weights: StoredWeights, features: Mapping[str, Any]
    ) -> None:
        super().__init__(state)
        self._stored, self._features = weights, features

    @property
    def sources(self) -> list[str]:
        """Tensors of the newest checkpoint."""
        return _with_features_first(self._stored, self._features)

    def get(
        self, source: str | None = None, *, whole: bool = True, patience_s: float = 2.0
    ) -> WeightChange:
        """The weights at the newest checkpoint; before and after are the same."""
        del patience_s  # nothing more will come
        names = self.sources
        if not names:
            raise ControlError(
                "The run has ended and left no checkpoint, so there are no weights to look at. "
                "Its series and events are in the facts."
            )
        name = names[0] if source is None else source
        if name not in names:
            raise ConfigError(f"no tensor {name!r}; there are {', '.join(names[:20])}")
        after = self._stored.read(name)
        fits = _feature_rows(self._features) == len(after)
        return WeightChange(
            step=self._stored.step,
            source=name,
            before=after if whole else None,
            after=after,
            tensors={},
            metrics=dict(self._features) if fits else {},
            note="as the facts and the newest checkpoint tell: how the last step moved each row, "
            "and whether its forces agreed, was not kept",
        )


def _with_features_first(weights: StoredWeights, features: Mapping[str, Any]) -> list[str]:
    """The tensor whose rows the facts describe comes first: it is shown by default."""
    names, rows = weights.names, _feature_rows(features)
    return sorted(names, key=lambda name: weights.rows(name) != rows) if rows else names


def _feature_rows(features: Mapping[str, Any]) -> int:
    return max((len(column) for column in features.values()), default=0)


def _followed(source: str, kept: Mapping[str, Any]) -> TrackedRows:
    """What was followed of one source; points that are none are left out."""
    made = TrackedRows(source=source)
    for row, points in dict(kept.get("trajectories") or {}).items():
        if str(row).isdecimal():
            made.rows[int(row)] = _path("weight_cos_to_init", points)
    for pair, points in dict(kept.get("pairwise") or {}).items():
        first, _, second = str(pair).partition(",")
        if first.isdecimal() and second.isdecimal():
            made.pairs[int(first), int(second)] = _path("cos", points)
    return made


def _path(name: str, points: Any) -> Trajectory:
    path = Trajectory(name)
    for point in points if isinstance(points, list) else []:
        if isinstance(point, Mapping) and isinstance(point.get("step"), int):
            told = {key: _number(value) for key, value in point.items() if key not in POINT_FIELDS}
            path.append(point["step"], _number(point.get(name)), told)
    return path


def _number(value: Any) -> float:
    """A number of an artifact; the three that JSON lacks are strings there."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
