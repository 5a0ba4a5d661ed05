"""What was kept of a run, read from its directory: stops, the end, checkpoints, the console."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from midstep.core.errors import MidstepError
from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.facts.format.console_parts import list_parts
from midstep.facts.format.stop_files import StopName
from midstep.facts.read.stop_evidence import read_stops
from midstep.facts.read.timelines import find_rewinds, path_of
from midstep.server.debug.breakpoint_schemas import Evidence
from midstep.server.runs.evidence_schemas import StopCause
from midstep.server.runs.kept_step import KeptStep, checked, is_on_path
from midstep.session.checkpoint.checkpoint_folders import (
    CheckpointFolders,
    CheckpointName,
    linked_name,
)

MOST_STOPS = 500
CAUSES = frozenset(get_args(StopCause))
RELEASES = frozenset({"resume", "step", "run_until", "back", "stop"})
"""Commands that end a pause."""
RECORDED_WITHIN_S = 1.0


def describe_evidence(folder: Path) -> dict[str, Any]:
    """The fields of `EvidenceOut`: where a run stopped and why, and what was kept of it."""
    facts = _read_facts(folder)
    stops = [KeptStep(stop) for stop in read_stops(folder)]
    on_path = [stop for stop in stops if is_on_path(stop.stop.name, facts.limits)]
    ends = [stop for stop in on_path if stop.stop.name.is_end]
    end = ends[-1] if ends and facts.is_over(ends[-1]) else None
    described = [_describe(stop, facts) for stop in stops if stop is not end]
    known = {(each["timeline"], each["step"]) for each in described}
    described += [each for each in facts.hits if (each["timeline"], each["step"]) not in known]
    described.sort(key=lambda each: each["at"] or 0.0)
    console_bytes = sum(part.size for part in list_parts(folder))
    return {
        "stops": described[-MOST_STOPS:],
        "end": None if end is None else _describe(end, facts),
        "shown": on_path[-1].id if on_path else None,
        "checkpoints": _checkpoints(folder, facts),
        "console_bytes": console_bytes,
        "bytes": console_bytes + sum(stop.stop.size for stop in stops),
    }


@dataclass(kw_only=True)
class _Facts:
    """What the facts say of stops."""

    limits: Mapping[int, int | None]
    """The last step that counts of each timeline on the path to the present one."""
    attempt: int
    hits: list[dict[str, Any]]
    """Stops by breakpoints, described as far as facts can."""
    releases: Mapping[tuple[int, int], list[float]] = field(default_factory=dict)
    """Wall times at which pauses ended, by timeline and step."""

    def is_over(self, end: KeptStep) -> bool:
        """Whether this is the end of the last attempt."""
        attempt = end.integer("attempt")
        return attempt is None or attempt >= self.attempt

    def lasted_s(self, name: StopName, since: float) -> float | None:
        """How long a pause lasted that began then."""
        ends = self.releases.get((name.timeline, name.step), ())
        # A command may be submitted while the pause is being recorded.
        later = [each - since for each in ends if each > since - RECORDED_WITHIN_S]
        return max(0.0, min(later)) if later else None


def _read_facts(folder: Path) -> _Facts:
    timeline, attempt, rewinds, hits = 0, 1, [], []
    releases: dict[tuple[int, int], list[float]] = {}
    try:
        for event in FactsReader(folder).each_event():
            timeline = max(timeline, event["timeline"])
            attempt = max(attempt, event["attempt"])
            if event["moment"] != Moment.INTERVENTION:
                continue
            kind = event.get("kind")
            if kind == "rewind":
                rewinds.append(event)
            elif kind == "command" and event.get("command") in RELEASES:
                asked = event.get("asked_step")
                if isinstance(asked, int):
                    releases.setdefault((event["timeline"], asked), []).append(_began(event))
            elif kind == "breakpoint":
                hits.append(event)
    except (MidstepError, KeyError, TypeError):
        pass  # a damaged run is shown as far as it can be read
    limits = path_of(timeline, find_rewinds(rewinds)).limits
    facts = _Facts(limits=limits, attempt=attempt, hits=[], releases=releases)
    described = (_describe_hit(hit, facts) for hit in hits[-MOST_STOPS:])
    facts.hits = [each for each in described if each is not None]
    return facts


def _began(command: Mapping[str, Any]) -> float:
    """When a command let the run continue. A command of several steps is recorded at its end."""
    wall, took = float(command["wall"]), command.get("duration_s")
    if command["command"] in ("step", "run_until") and isinstance(took, int | float):
        return wall - took
    return wall


def _describe(kept: KeptStep, facts: _Facts) -> dict[str, Any]:
    """The fields of `KeptStopOut`."""
    cause, at = kept.text("cause"), kept.stop.wall or None
    batch = kept.batch()
    is_end = kept.stop.name.is_end
    return {
        "id": kept.id,
        "kept": True,
        "step": kept.step,
        "timeline": kept.timeline,
        "current": is_on_path(kept.stop.name, facts.limits),
        "attempt": kept.integer("attempt"),
        "at": at,
        "lasted_s": None if at is None or is_end else facts.lasted_s(kept.stop.name, at),
        "cause": cause if cause in CAUSES else "other",
        "who": kept.text("who"),
        "reason": kept.text("reason"),
        "breakpoint": kept.evidence(),
        "batch_step": None if batch is None else batch["step"],
        "samples": None if batch is None else batch["shown"],
        "of_samples": None if batch is None else kept.integer("batch_samples"),
        "step_data": list(kept.entries),
        "not_kept": kept.not_kept(),
        "bytes": kept.stop.size,
    }


def _describe_hit(event: Mapping[str, Any], facts: _Facts) -> dict[str, Any] | None:
    """A stop by a breakpoint of which no file is left."""
    fields = {name: event[name] for name in Evidence.model_fields if name in event}
    hit = checked(Evidence, fields)
    if hit is None or not 0 <= hit["step"] < 10**15:
        return None
    name = StopName(event["timeline"], hit["step"])
    return {
        "id": name.id,
        "kept": False,
        "step": name.step,
        "timeline": name.timeline,
        "current": is_on_path(name, facts.limits),
        "attempt": event["attempt"],
        "at": event["wall"],
        "lasted_s": facts.lasted_s(name, event["wall"]),
        "cause": "breakpoint",
        "who": "breakpoint",
        "reason": None,
        "breakpoint": hit,
        "batch_step": None,
        "samples": None,
        "of_samples": None,
        "step_data": [],
        "not_kept": {},
        "bytes": 0,
    }


def _checkpoints(folder: Path, facts: _Facts) -> list[dict[str, Any]]:
    folders = CheckpointFolders(folder)
    best = linked_name(folder / "best_val")
    try:
        names = folders.names()
    except MidstepError:
        return []
    described = (
        _describe_checkpoint(name, folders.path(name), facts, is_best=name == best)
        for name in sorted(names, key=lambda each: (each.step, each))
    )
    return [each for each in described if each is not None]


def _describe_checkpoint(
    name: CheckpointName, path: Path, facts: _Facts, *, is_best: bool
) -> dict[str, Any] | None:
    try:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(path)]
        written_at = path.stat(follow_symlinks=False).st_mtime
    except OSError:  # removed since it was listed
        return None
    return {
        "name": name.name,
        "step": name.step,
        "timeline": name.timeline,
        "current": is_on_path(StopName(name.timeline, name.step), facts.limits),
        "best": is_best,
        "at": written_at,
        "bytes": sum(sizes),
    }
