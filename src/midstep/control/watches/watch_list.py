"""Which rows of which named tensors are watched, and their points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from midstep.control.watches.tensor_rows import tensor_names
from midstep.control.watches.trajectory import Trajectory
from midstep.core.errors import ConfigError

MAX_WATCHED = 64
"""Limit of rows that are watched at the same time; 64 rows have 2,016 pairs."""
MAX_KEPT_ROWS = 256
MAX_KEPT_PAIRS = 4096
"""Limits of series, including those of removed watches: below 1 GB with nine metrics a row."""
MAX_SEEN = 1024
"""Limit of keys of step data that are searched for matrices."""
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


class WatchList:
    """The watches by source. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self.sources: dict[str, Callable[[], Any]] = {}
        self.default_source: str | None = None
        self.chosen_source: str | None = None
        """The source of the last `replace`."""
        self.tracked: dict[str, TrackedRows] = {}
        self.has_new_rows = False
        """Whether rows were added, or all points cleared, since the training thread read them."""
        self._searched_keys: set[str] = set()
        self.step_data_matrices: dict[str, None] = {}
        """Names of the matrices in the step data so far, in order; a dict as an ordered set."""

    def add_source(self, name: str, read: Callable[[], Any], *, default: bool = False) -> None:
        """Offer the tensor that `read` returns; its rows can be watched."""
        self.sources[name] = read
        if default or self.default_source is None:
            self.default_source = name

    def note_matrices(self, step_data: Mapping[str, Any]) -> None:
        """Remember which step data can be watched. On the training thread, without the lock."""
        # Each key is searched once: a mapping may have a thousand entries.
        for key in [key for key in step_data if key not in self._searched_keys][:MAX_SEEN]:
            if len(self._searched_keys) < MAX_SEEN and len(self.step_data_matrices) < MAX_SEEN:
                self._searched_keys.add(key)
                # A new dict, because other threads read it without the lock.
                self.step_data_matrices = {
                    **self.step_data_matrices,
                    **dict.fromkeys(tensor_names(key, step_data[key])),
                }

    @property
    def active(self) -> bool:
        """Whether any row is watched."""
        return any(each.watched for each in self.tracked.values())

    def tracked_rows(self, source: str | None = None) -> TrackedRows:
        """The watched rows of a source; of the one chosen last when left out."""
        name = source or self.chosen_source or self.default_source or ""
        return self.tracked.get(name) or TrackedRows(source=name)

    def replace(self, source: str, features: Iterable[int]) -> None:
        """Watch these rows of one source. Points of rows that are no longer watched stay."""
        chosen = list(dict.fromkeys(features))
        # Checked here and not while training: a step must never fail because of a watch.
        self._check_limits(source, chosen)
        if chosen:
            self.tracked.setdefault(source, TrackedRows(source=source))
        if source in self.tracked:
            self.tracked[source].watched = chosen
        self.chosen_source, self.has_new_rows = source, bool(chosen) or self.has_new_rows

    def _check_limits(self, source: str, chosen: list[int]) -> None:
        others = [each for each in self.tracked.values() if each.source != source]
        total = len(chosen) + sum(len(each.watched) for each in others)
        if total > MAX_WATCHED:
            raise ConfigError(
                f"{total} watched rows are too many: the limit is {MAX_WATCHED} over all sources; "
                "remove some with remove_watch"
            )
        rows = pairs = 0
        after = [(self.tracked_rows(source), chosen), *((each, each.watched) for each in others)]
        for each, watched in after:
            rows += len({*each.rows, *watched})
            pairs += len({*each.pairs, *combinations(sorted(watched), 2)})
        if rows > MAX_KEPT_ROWS or pairs > MAX_KEPT_PAIRS:
            raise ConfigError(
                f"points of at most {MAX_KEPT_ROWS} rows and {MAX_KEPT_PAIRS} pairs are kept, "
                "including removed watches; drop the old ones with clear_trajectories"
            )

    def drop(self, feature: int | None, source: str | None = None) -> None:
        """Stop watching a row (every row if None), in one source or in all."""
        for each in self.tracked.values():
            if source in (None, each.source):
                each.watched = [held for held in each.watched if feature not in (None, held)]

    def forget_after(self, step: int) -> None:
        """Drop points after `step`; starts stay, so that a series continues where it is cut."""
        for followed in self.tracked.values():
            for path in (*followed.rows.values(), *followed.pairs.values()):
                path.cut_after(step)

    def clear(self) -> None:
        """Drop all points; watched rows get new starts and new points from here on."""
        watched = [each for each in self.tracked.values() if each.watched]
        # New objects: a point that the training thread is about to add goes into the old ones,
        # and is dropped with them.
        self.tracked = {
            each.source: TrackedRows(source=each.source, watched=each.watched) for each in watched
        }
        self.has_new_rows = bool(watched)
