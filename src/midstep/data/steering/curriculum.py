"""Which steering variant a pair gets in an epoch: three named schedules.

The variant of a pair is a pure function of (seed, epoch, pair id). No generator is kept, so worker
count, access order, rank and resume change nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, one_of, require, sums_to_one, within
from midstep.core.random_streams import RandomStream
from midstep.data.steering.storage.layout import VARIANTS

Shares = tuple[float, float, float, float]
"""Probabilities of zero, centroid, keyword, residual."""
Mode = Literal["fixed", "linear", "cosine"]

BANDS: tuple[Shares, ...] = (
    (0.7, 0.2, 0.1, 0.0),
    (0.5, 0.3, 0.15, 0.05),
    (0.3, 0.3, 0.25, 0.15),
    (0.1, 0.3, 0.35, 0.25),
    (0.0, 0.2, 0.4, 0.4),
)
"""The default table of `Bands`."""


@dataclass(frozen=True, kw_only=True)
class Curriculum(ABC):
    """A schedule: the probabilities of the four variants in each epoch."""

    name: ClassVar[str] = ""

    @abstractmethod
    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The four probabilities, before the distance of a pair is considered.

        Args:
            epoch: counted from 0.
            stored: `steering_probabilities` of config.json.
        """

    def largest_distance(self, epoch: int) -> float | None:
        """Pairs above this centroid distance get the next easier variant; None for no limit."""
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
        uniform = RandomStream(seed, "steering", epoch=epoch).uniform_at(pair_ids)
        shares = np.asarray(self.shares(epoch, stored), dtype=np.float64)
        variants = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right").astype(np.int64)
        # A sum that rounds to less than 1 must not let in a variant of probability 0.
        np.minimum(variants, np.flatnonzero(shares)[-1], out=variants)
        limit = self.largest_distance(epoch)
        if limit is not None:
            # Distances are stored as float32: compared with a float64 limit, a distance equal to
            # it could count as above.
            variants -= (distances > np.float32(limit)) & (variants > 0)
        return variants

    def describe(self) -> dict[str, Any]:
        """Name and settings, as in config.json."""
        return {"name": self.name, **{each.name: getattr(self, each.name) for each in fields(self)}}


@dataclass(frozen=True, kw_only=True)
class LinearZero(Curriculum):
    """The zero variant becomes rarer, linearly over the epochs; the others keep their ratio.

    >>> even = {"zero": 0.25, "centroid": 0.25, "keyword": 0.25, "residual": 0.25}
    >>> [round(LinearZero().shares(epoch, even)[0], 3) for epoch in (0, 50, 100, 200)]
    [0.5, 0.3, 0.1, 0.1]
    """

    name: ClassVar[str] = "linear_zero"
    start: float = 0.5
    """Probability of the zero variant in epoch 0."""
    end: float = 0.1
    """Probability of the zero variant from epoch `epochs` on."""
    epochs: int = 100
    """Epochs from `start` to `end`."""

    def __post_init__(self) -> None:
        require(
            within("start", self.start, 0, 1),
            within("end", self.end, 0, 1),
            at_least("epochs", self.epochs, 1),
        )

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The zero variant by schedule; the other three share the rest in their stored ratio."""
        zero = self.start + (self.end - self.start) * min(epoch / self.epochs, 1.0)
        others = [stored[name] for name in VARIANTS[1:]]
        total = math.fsum(others)
        if total == 0:
            return (1.0, 0.0, 0.0, 0.0)
        centroid, keyword, residual = ((1 - zero) * each / total for each in others)
        return (zero, centroid, keyword, residual)


@dataclass(frozen=True, kw_only=True)
class DistanceGated(Curriculum):
    """At first, pairs whose question is far from its centroid get the next easier variant.

    >>> [DistanceGated(mode="linear").largest_distance(epoch) for epoch in (0, 5, 10, 40)]
    [0.3, 0.5, 0.7, 0.7]
    """

    name: ClassVar[str] = "distance_gated"
    mode: Mode = "linear"
    """`fixed` keeps `start`; `linear` and `cosine` go from `start` to `end`."""
    start: float = 0.3
    """Largest centroid distance in epoch 0."""
    end: float = 0.7
    """Largest centroid distance after the warm-up."""
    warm_up: int = 10
    """Epochs from `start` to `end`."""

    def __post_init__(self) -> None:
        require(
            one_of("mode", self.mode, get_args(Mode)),
            within("start", self.start, 0, 2, kind="a distance"),
            within("end", self.end, 0, 2, kind="a distance"),
            at_least("warm_up", self.warm_up, 1),
        )

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The stored probabilities, in every epoch."""
        del epoch
        zero, centroid, keyword, residual = (float(stored[name]) for name in VARIANTS)
        return (zero, centroid, keyword, residual)

    def largest_distance(self, epoch: int) -> float:
        """The limit of the epoch: from `start` to `end` over the warm-up."""
        if self.mode == "fixed":
            return self.start
        progress = min(epoch / self.warm_up, 1.0)
        if self.mode == "cosine":
            progress = (1 - math.cos(math.pi * progress)) / 2
        return self.start + (self.end - self.start) * progress


@dataclass(frozen=True, kw_only=True)
class Bands(Curriculum):
    """A table of probabilities, one row for every ten epochs; the last row stays.

    >>> Bands().shares(12, {}), Bands().shares(400, {})
    ((0.5, 0.3, 0.15, 0.05), (0.0, 0.2, 0.4, 0.4))
    """

    name: ClassVar[str] = "bands"
    table: tuple[Shares, ...] = BANDS
    """Rows of zero, centroid, keyword, residual."""
    epochs: int = 10
    """Epochs of a row."""

    def __post_init__(self) -> None:
        require(at_least("epochs", self.epochs, 1))
        try:
            rows = tuple(tuple(float(share) for share in row) for row in self.table)
        except (TypeError, ValueError):
            raise ConfigError(f"table must be rows of four numbers, got {self.table!r}") from None
        for index, row in enumerate(rows):
            if len(row) != 4 or min(row) < 0 or not sums_to_one(row):
                raise ConfigError(f"row {index} of table must be four shares of sum 1, got {row}")
        if not rows:
            raise ConfigError("table has no rows; give at least one row of four shares")
        object.__setattr__(self, "table", rows)

    def shares(self, epoch: int, stored: Mapping[str, float]) -> Shares:
        """The row of the epoch; the stored probabilities are not used."""
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


def curriculum_problem(name: str, value: Any) -> str | None:
    """What is wrong with the schedule of a config, as a check of the field `name`."""
    try:
        curriculum_from(value)
    except ConfigError as error:
        return f"{name}: {error}"
    return None


def forced_variant(name: str | None) -> int | None:
    """The number of the variant that `force_steering` names; None for None.

    >>> forced_variant("keyword_weighted"), forced_variant(None)
    (2, None)
    """
    if name is None:
        return None
    numbers = {**{each: at for at, each in enumerate(VARIANTS)}, "keyword_weighted": 2}
    if name not in numbers:
        raise ConfigError(f"force_steering {name!r} is unknown; use one of {', '.join(numbers)}")
    return numbers[name]
