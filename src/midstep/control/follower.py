"""Follows the watched rows.

Sources are other people's code: they are never asked under the lock.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from midstep.control.rows import (
    cosines_of,
    find_tensor,
    metrics_of_rows,
    tensor_names,
    unit_rows,
)
from midstep.control.shared import Shared
from midstep.control.trajectory import Trajectory
from midstep.control.watches import Followed
from midstep.core.errors import ConfigError

__all__ = ["Follower"]

log = logging.getLogger("midstep.control")


class Follower:
    """Reads rows at the boundary for the training thread, and answers for any other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._board = shared.watches

    # -- the training thread's side ---------------------------------------------------------------

    def begin(self) -> None:
        """Note where rows that were just put on a list start from."""
        if self._board.fresh:
            for followed in self._plan():
                self._try(followed, self._read)

    def record(self) -> None:
        """Add a point for every watched row that is there in this step."""
        if self._shared.captures.step_data:
            self._board.look_into(self._shared.captures.step_data)
        if self._board.active:
            for followed in self._plan():
                self._try(followed, self._add_points)

    def _plan(self) -> list[Followed]:
        with self._shared.lock:
            self._board.fresh = False
            return [each for each in self._board.followed.values() if each.watched]

    def _try(self, followed: Followed, work: Any) -> None:
        try:
            work(followed)
        except Exception as error:
            # A source is somebody's callable: if it raises, its watch ends and training goes on.
            source, shared = followed.source, self._shared
            log.exception("watching %s raised and is off; training goes on", source)
            with shared.lock:
                self._board.drop(None, source)
                shared.reason = f"Watching {source} stopped: {type(error).__name__}: {error}"
                shared.refresh_flags()

    def _read(self, followed: Followed) -> tuple[list[int], Any, int] | None:
        """Rows that are there now, as unit vectors, out of how many; a new one's start is kept."""
        tensor = self._tensor(followed.source)
        if tensor is None:  # step data that this step did not push
            return None
        count = int(tensor.shape[0])
        rows = [row for row in followed.watched if row < count]
        if not rows:
            return None
        unit = unit_rows(tensor, rows)
        for row, vector in zip(rows, unit, strict=True):
            if row not in followed.starts:
                followed.starts[row] = vector.copy()
        return rows, unit, count

    def _add_points(self, followed: Followed) -> None:
        if (read := self._read(followed)) is None:
            return
        rows, unit, count = read
        to_start, cosines = cosines_of(unit, [followed.starts[row] for row in rows])
        metrics = metrics_of_rows(self._told_of(followed.source), rows, count)
        with self._shared.lock:
            followed.add(self._shared.finished, rows, to_start, cosines, metrics)

    def _told_of(self, source: str) -> dict[str, Any]:
        """This step's data, less what its hint says to be about other rows than the source's."""
        captures = self._shared.captures
        hints = captures.panels
        return {
            key: value
            for key, value in captures.step_data.items()
            if (hint := hints.get(key)) is None or hint.tells_of(source)
        }

    def _tensor(self, source: str) -> Any:
        read = self._board.sources.get(source)
        return find_tensor(self._shared.captures.step_data, source) if read is None else read()

    # -- any thread's side ------------------------------------------------------------------------

    def sources(self) -> list[str]:
        """Names of the tensors whose rows can be watched: the default, the offered, step data's."""
        captures, board = self._shared.captures, self._board
        with self._shared.lock:
            offered = sorted(board.sources, key=lambda name: name != board.default_source)
        now = {**captures.shown.values, **captures.step_data}
        pushed = [name for key, value in now.items() for name in tensor_names(key, value)]
        return list(dict.fromkeys([*offered, *board.seen, *pushed]))

    def choose(
        self, feature_ids: Iterable[int], source: str | None, *, keep_others: bool = False
    ) -> None:
        """Watch these rows of one source, beside its other ones or instead of them."""
        features = [_checked(feature) for feature in feature_ids]
        if features or source:
            name = self._checked_source(features, source)
            with self._shared.changing():
                held = self._board.of(name).watched if keep_others else []
                self._board.replace(name, [*held, *features])
        elif not keep_others:
            self.drop(None, None)

    def drop(self, feature: int | None, source: str | None) -> None:
        """Watch a row (every row when None) no longer, in one source or in all."""
        with self._shared.changing():
            self._board.drop(feature, source)

    def _checked_source(self, features: list[int], source: str | None) -> str:
        name = source or self._board.default_source
        if features and (name is None or name not in self.sources()):
            known = ", ".join(self.sources()) or "none; offer one with add_source"
            raise ConfigError(f"no source {name!r}; there are {known}")
        if features and name is not None:
            self._check_rows(features, name)
        return name or ""

    def _check_rows(self, features: list[int], source: str) -> None:
        captures = self._shared.captures
        read = self._board.sources.get(source)  # a shape is read from any thread, values are not
        now = {**captures.shown.values, **captures.step_data}
        tensor = find_tensor(now, source) if read is None else read()
        if tensor is None:  # step data of an earlier step; rows that never come get no points
            return
        if not tensor.shape:
            raise ConfigError(f"{source} is a single number; a watch follows a row of a tensor")
        rows = int(tensor.shape[0])
        outside = [feature for feature in features if feature >= rows]
        if outside:
            raise ConfigError(f"{source} has {rows} rows; row {outside[0]} cannot be watched")

    def look(self, source: str | None = None) -> Followed:
        """A copy of what is followed of one source; of the one chosen last when left out."""
        with self._shared.lock:
            followed = self._board.of(source)
        return self._copy(followed, None)

    def look_at_all(self, points: int, in_all: int) -> list[Followed]:
        """Copies of everything, the source chosen last first.

        Args:
            points: most points a series; what is beyond is thinned.
            in_all: most points over all series, so that an answer stays bounded.
        """
        with self._shared.lock:
            current = self._board.of()
            found = [current, *(f for f in self._board.followed.values() if f is not current)]
            series = sum(len(each.rows) + len(each.pairs) for each in found)
        each_has = max(2, min(points, in_all // max(series, 1)))
        return [self._copy(followed, each_has) for followed in found]

    def _copy(self, followed: Followed, points: int | None) -> Followed:
        """Series by series, each under the lock for one copy of its arrays."""
        with self._shared.lock:
            made = replace(followed, watched=list(followed.watched), starts={})
            rows, pairs = dict(followed.rows), dict(followed.pairs)
        made.rows = {row: self._copied(path, points, made) for row, path in rows.items()}
        made.pairs = {pair: self._copied(path, points, made) for pair, path in pairs.items()}
        return made

    def _copied(self, path: Trajectory, points: int | None, into: Followed) -> Trajectory:
        with self._shared.lock:
            made = path.copy()
        if points is not None and made.thin(points):
            into.exact = False
        return made


def _checked(feature: Any) -> int:
    if isinstance(feature, bool) or not isinstance(feature, int) or feature < 0:
        raise ConfigError(f"a watch needs a row number of 0 or more, got {feature!r}")
    return feature
