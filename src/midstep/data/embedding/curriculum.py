"""Which steering variant a pair gets in an epoch: three named schedules.

The draw for a pair is a pure function of (seed, epoch, pair id): no generator is kept, so worker
count, access order, rank and resume change nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from midstep.core.errors import ConfigError
from midstep.core.streams import RandomStream
from midstep.data.embedding.draws import uniform_at
from midstep.data.embedding.layout import VARIANTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Bands",
    "Curriculum",
    "DistanceGated",
    "LinearZero",
    "curriculum_from",
    "forced_variant",
]

Shares = tuple[float, float, float, float]
Mode = Literal["fixed", "linear", "cosine"]

BANDS: tuple[Shares, ...] = (
    (0.7, 0.2, 0.1, 0.0),
    (0.5, 0.3, 0.15, 0.05),
    (0.3, 0.3, 0.25, 0.15),
    (0.1, 0.3, 0.35, 0.25),
    (0.0, 0.2, 0.4, 0.4),
)


@dataclass(frozen=True, kw_only=True)
class Curriculum(ABC):
    """A schedule: probabilities of zero, centroid, keyword, residual for an epoch."""

    name: ClassVar[str] = ""

    @abstractmethod
    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The four probabilities, before the distance of a pair is looked at.

        Args:
            epoch: counted from 0.
            stored: `steering_probabilities` of config.json.
        """

    def largest_distance(self, epoch: int) -> float | None:
        """Pairs beyond this centroid distance get the next easier variant; None for no limit."""
        del epoch
        return None

    def variants(
        self,
        seed: int,
        epoch: int,
        pair_ids: NDArray[np.int64],
        distances: NDArray[np.float32],
        stored: Mapping[str, float],
    ) -> NDArray[np.int64]:
        """The variant (0 to 3) of each pair."""
        uniform = uniform_at(RandomStream(seed, "steering", epoch=epoch), pair_ids)
        shares = np.asarray(self.shares(epoch, stored), dtype=np.float64)
        drawn = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right").astype(np.int64)
        # A sum rounded below 1 must not let in a variant of probability 0.
        np.minimum(drawn, np.flatnonzero(shares)[-1], out=drawn)
        limit = self.largest_distance(epoch)
        if limit is not None:
            drawn -= (distances > np.float32(limit)) & (drawn > 0)
        return drawn

    def describe(self) -> dict[str, Any]:
        """As in config.json."""
        return {"name": self.name, **{each.name: getattr(self, each.name) for each in fields(self)}}


@dataclass(frozen=True, kw_only=True)
class LinearZero(Curriculum):
    """The zero variant grows rarer, evenly over the epochs; the others keep their ratio.

    >>> even = {"zero": 0.25, "centroid": 0.25, "keyword": 0.25, "residual": 0.25}
    >>> [round(LinearZero().shares(epoch, even)[0], 3) for epoch in (0, 50, 100, 200)]
    [0.5, 0.3, 0.1, 0.1]
    """

    name: ClassVar[str] = "linear_zero"
    start: float = 0.5
    """Probability of the zero variant in epoch 0."""
    end: float = 0.1
    """And from epoch `epochs` on."""
    epochs: int = 100
    """How long the way from one to the other is."""

    def __post_init__(self) -> None:
        _check_share("start", self.start)
        _check_share("end", self.end)
        _check_epochs("epochs", self.epochs)

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The stored ratio of the other three, scaled to what the zero variant leaves."""
        zero = self.start + (self.end - self.start) * min(epoch / self.epochs, 1.0)
        others = [stored[name] for name in VARIANTS[1:]]
        total = math.fsum(others)
        if total == 0:
            return (1.0, 0.0, 0.0, 0.0)
        centroid, keyword, residual = ((1 - zero) * each / total for each in others)
        return (zero, centroid, keyword, residual)


@dataclass(frozen=True, kw_only=True)
class DistanceGated(Curriculum):
    """Pairs whose question lies far from its centroid get the next easier variant, at first.

    >>> [DistanceGated(mode="linear").largest_distance(epoch) for epoch in (0, 5, 10, 40)]
    [0.3, 0.5, 0.7, 0.7]
    """

    name: ClassVar[str] = "distance_gated"
    mode: Mode = "linear"
    """`fixed` keeps `start`; `linear` and `cosine` go from `start` to `end`."""
    start: float = 0.3
    """Largest centroid distance in epoch 0."""
    end: float = 0.7
    """And after the warm-up."""
    warm_up: int = 10
    """Epochs of the way between."""

    def __post_init__(self) -> None:
        if self.mode not in ("fixed", "linear", "cosine"):
            raise ConfigError(f"mode must be fixed, linear or cosine, got {self.mode!r}")
        for name in ("start", "end"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 <= value <= 2:
                raise ConfigError(f"{name} must be a distance from 0 to 2, got {value!r}")
        _check_epochs("warm_up", self.warm_up)

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The stored ones."""
        del epoch
        zero, centroid, keyword, residual = (float(stored[name]) for name in VARIANTS)
        return (zero, centroid, keyword, residual)

    def largest_distance(self, epoch: int) -> float:
        """Where the gate stands."""
        if self.mode == "fixed":
            return self.start
        way = min(epoch / self.warm_up, 1.0)
        if self.mode == "cosine":
            way = (1 - math.cos(math.pi * way)) / 2
        return self.start + (self.end - self.start) * way


@dataclass(frozen=True, kw_only=True)
class Bands(Curriculum):
    """A table of probabilities, one row for ten epochs; the last row stays.

    >>> Bands().shares(12, {}), Bands().shares(400, {})
    ((0.5, 0.3, 0.15, 0.05), (0.0, 0.2, 0.4, 0.4))
    """

    name: ClassVar[str] = "bands"
    table: tuple[Shares, ...] = BANDS
    """Rows of zero, centroid, keyword, residual."""
    epochs: int = 10
    """Epochs of a row."""

    def __post_init__(self) -> None:
        _check_epochs("epochs", self.epochs)
        try:
            rows = tuple(tuple(float(share) for share in row) for row in self.table)
        except (TypeError, ValueError):
            raise ConfigError(f"table must be rows of four numbers, got {self.table!r}") from None
        for index, row in enumerate(rows):
            if len(row) != 4 or min(row) < 0 or abs(math.fsum(row) - 1) > 1e-6:
                raise ConfigError(f"row {index} of table must be four shares of sum 1, got {row}")
        if not rows:
            raise ConfigError("table has no rows")
        object.__setattr__(self, "table", rows)

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The row of the epoch; what is stored is not used."""
        del stored
        return self.table[min(epoch // self.epochs, len(self.table) - 1)]


_SCHEDULES: dict[str, type[Curriculum]] = {
    each.name: each for each in (LinearZero, DistanceGated, Bands)
}


def curriculum_from(value: Curriculum | str | Mapping[str, Any]) -> Curriculum:
    """A schedule from its name, or from `{"name": …, settings}` as in config.json.

    >>> curriculum_from({"name": "distance_gated", "mode": "cosine"}).largest_distance(10)
    0.7
    """
    if isinstance(value, Curriculum):
        return value
    given = {"name": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping) or given.get("name") not in _SCHEDULES:
        name = given.get("name") if isinstance(given, Mapping) else given
        raise ConfigError(f"schedule {name!r} is unknown; use one of {', '.join(_SCHEDULES)}")
    schedule = _SCHEDULES[given["name"]]
    known = {each.name for each in fields(schedule)}
    unknown = sorted(set(given) - known - {"name"})
    if unknown:
        raise ConfigError(
            f"{schedule.name} has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}"
        )
    return schedule(**{key: item for key, item in given.items() if key != "name"})


def forced_variant(name: str | None) -> int | None:
    """The number behind a name for `force_steering`.

    >>> forced_variant("keyword_weighted"), forced_variant(None)
    (2, None)
    """
    if name is None:
        return None
    numbers = {**{each: at for at, each in enumerate(VARIANTS)}, "keyword_weighted": 2}
    if name not in numbers:
        raise ConfigError(f"force_steering {name!r} is unknown; use one of {', '.join(numbers)}")
    return numbers[name]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_share(name: str, value: Any) -> None:
    if not _is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name} must be a number from 0 to 1, got {value!r}")


def _check_epochs(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
