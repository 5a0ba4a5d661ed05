"""What the per-step scalars of a run come to, for a list; read on from where it stopped last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from midstep.facts.columns import RowGroup, StepsFile
from midstep.facts.skim import skim_steps

__all__ = ["StepsDigest"]

MOST_NAMES = 2_000
"""Series that a list knows of; a run with more has them all, but they are not listed."""


@dataclass
class StepsDigest:
    """Of one steps file. Plain values only: it is kept as JSON."""

    offset: int = 0
    """File offset behind the last row taken in."""
    layouts: dict[str, list[str]] = field(default_factory=dict)
    """Names of the values of each layout met so far."""
    damages: int = 0
    rows: int = 0
    first: tuple[int, float] | None = None
    """(step, wall) of the first row."""
    last: tuple[int, int, float, int] | None = None
    """(seq, step, wall, timeline) of the last row."""
    values: dict[str, tuple[int, float]] = field(default_factory=dict)
    """(seq, value) of the last row of each name, in the order the names appeared."""

    def read(self, path: Path) -> None:
        """Take in what is new in the file."""
        known = {int(identity): tuple(names) for identity, names in self.layouts.items()}
        skim = skim_steps(path, self.offset, known)
        if skim is None:
            self._read_carefully(path, known)
            return
        for group in skim.groups:
            self._take(group)
        self.offset = skim.offset
        self._learn(skim.layouts)

    def _read_carefully(self, path: Path, known: Mapping[int, tuple[str, ...]]) -> None:
        """Check every frame, and go on behind damaged ones."""
        file = StepsFile(path, offset=self.offset, layouts=known)
        for group in file.groups():
            self._take(group)
        self.offset = file.offset
        self.damages += len(file.damages) + file.nameless
        self._learn(file.layouts)

    def _learn(self, layouts: Mapping[int, tuple[str, ...]]) -> None:
        self.layouts = {str(identity): list(names) for identity, names in layouts.items()}

    def _take(self, group: RowGroup) -> None:
        self.rows += len(group.rows)
        first, last = group.rows[0], group.rows[-1]
        if self.first is None:
            self.first = (int(first["step"]), float(first["wall"]))
        seq = int(last["seq"])
        if self.last is None or seq > self.last[0]:
            self.last = (seq, int(last["step"]), float(last["wall"]), int(last["timeline"]))
        for name, value in zip(group.names, last["values"].tolist(), strict=True):
            known = self.values.get(name)
            if known is None and len(self.values) >= MOST_NAMES:
                continue
            if known is None or known[0] < seq:
                self.values[name] = (seq, value)

    @classmethod
    def of_json(cls, kept: dict[str, Any]) -> StepsDigest:
        """What `as_json` gave."""
        made = cls(**kept)
        made.first = None if made.first is None else (made.first[0], made.first[1])
        made.last = None if made.last is None else (*made.last[:3], made.last[3])
        return made

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
