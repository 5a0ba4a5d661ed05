"""`RunRow`: a run as a list shows it, from its summary and its state now."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from midstep.core.ids import ALPHABET, is_run_id
from midstep.facts.format.run_files import disk_bytes
from midstep.facts.index.event_summary import Setting
from midstep.facts.index.run_summary import EVENTS, RunSummary
from midstep.facts.liveness.lease import read_lease
from midstep.facts.liveness.run_liveness import (
    EndState,
    HeartbeatWatch,
    end_state_from,
    written_bytes,
)
from midstep.facts.liveness.run_lock import boot_id, lock_holder

MOST_SUMMARY = 64
FIRST_OF_SUMMARY = (
    "loss",
    "train_loss",
    "val_loss",
    "best_val_loss",
    "test_loss",
    "lr",
    "grad_norm",
    "steps_per_s",
)
ACTIVE_STATES = frozenset(
    {"starting", "running", "pausing", "paused", "stepping", "rewinding", "busy"}
)
"""States that a controller reports before the training ends."""
LIVE_STATES = ACTIVE_STATES | {"stopping", "not responding"}
"""States of a run whose process lives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """One run of a list. Every field is sent over HTTP under its name."""

    id: str
    name: str
    directory: str
    """Relative to the outputs root, with `/` between its parts."""
    state: str
    live: bool = False
    """Whether its process lives: the training runs or is paused."""
    reachable: bool = False
    """Whether it can receive commands."""
    why: str | None = None
    """Why it ended, is damaged, or cannot be reached."""
    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    updated_at: float | None = None
    attempt: int = 0
    timeline: int = 0
    recipe: str | None = None
    host: str | None = None
    seed: int | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    config: Mapping[str, Setting] = field(default_factory=dict)
    summary: Mapping[str, float] = field(default_factory=dict)
    """The last value of each name."""
    scalars: tuple[str, ...] = ()
    """Names of its series."""
    parent: str | None = None
    bytes: int | None = None

    def as_wire(self) -> dict[str, Any]:
        """The fields as plain values."""
        # Not `asdict`: it copies every setting and value of every run of a list.
        values = {name: getattr(self, name) for name in RunRow.__slots__}
        return values | {"tags": list(self.tags), "scalars": list(self.scalars)}


def derived_id(directory: str) -> str:
    """An id made from the path, for a run without an id, or with the id of another directory.

    >>> derived_id("runs/run_a") == derived_id("runs/run_a"), is_run_id(derived_id("x"))
    (True, True)
    """
    digest = hashlib.blake2b(directory.encode("utf-8", "surrogateescape"), digest_size=12).digest()
    return "".join(ALPHABET[byte % 32] for byte in digest)


def row_with_state(row: RunRow, folder: Path, summary: RunSummary, watch: HeartbeatWatch) -> RunRow:
    """The row with the state that the run has now."""
    damage = _damage(summary)
    if damage is not None:
        return replace(row, state="damaged", why=damage)
    end = end_state_from(folder, summary.events.end, watch=watch)
    if not summary.has_lease:
        ended_at = row.updated_at if row.ended_at is None else row.ended_at
        is_live = end.state in LIVE_STATES
        return replace(
            row,
            state=end.state,
            live=is_live,
            why=end.reason,
            ended_at=None if is_live else ended_at,
        )
    return _with_lease(row, folder, summary, end)


def has_new_events(folder: Path, summary: RunSummary) -> bool:
    """Whether a run without an end record has written events since its summary was updated."""
    stamp = summary.stamps.get(EVENTS)
    known = 0 if stamp is None else stamp[1]
    return summary.events.end is None and written_bytes(folder) > known


def row_from_summary(directory: str, summary: RunSummary) -> RunRow:
    """The row from the facts alone; `row_with_state` adds the state."""
    events, steps = summary.events, summary.ordered_steps()
    # Tuples that begin with the number of their record: the largest is the newest.
    header, last = events.header, max((each.last for each in steps if each.last), default=None)
    named = [events.newest("step"), None if last is None else (last[0], last[1])]
    epoch = events.newest("epoch")
    run_id = events.run_id or (summary.deleting or {}).get("run_id")
    walls = [wall for wall in (events.wall, None if last is None else last[2]) if wall is not None]
    scalars = {name: None for each in steps for name in each.values}
    recipe = header.get("recipe") or events.config.get("recipe")
    return RunRow(
        id=run_id if isinstance(run_id, str) and is_run_id(run_id) else derived_id(directory),
        name=_as_utf8(header.get("name") or directory.rpartition("/")[2]),
        directory=_as_utf8(directory),
        state="lost",
        step=max((each for each in named if each is not None), default=(0, None))[1],
        total_steps=header.get("total_steps"),
        epoch=None if epoch is None else epoch[1],
        started_at=events.started_at,
        ended_at=None if events.end is None else events.end["wall"],
        updated_at=max(walls, default=None),
        attempt=events.attempt,
        timeline=max(events.timeline, 0 if last is None else last[3]),
        recipe=recipe if isinstance(recipe, str) else None,
        host=header.get("host"),
        seed=header.get("seed"),
        tags=tuple(summary.tags),
        note=summary.note,
        config=events.config,
        summary=_summary(summary),
        scalars=tuple(scalars),
        parent=summary.parent,
        bytes=summary.disk_bytes,
    )


def read_row(run_dir: Path) -> RunRow:
    """The row of one run directory, read without an index."""
    summary = RunSummary()
    summary.update(str(run_dir))
    summary.disk_bytes = disk_bytes(str(run_dir))
    return row_with_state(
        row_from_summary(run_dir.name, summary), run_dir, summary, HeartbeatWatch()
    )


def unreadable_row(directory: str, why: str) -> RunRow:
    """The row of a run whose facts cannot be read, with the reason."""
    return RunRow(
        id=derived_id(directory),
        name=_as_utf8(directory.rpartition("/")[2]),
        directory=_as_utf8(directory),
        state="damaged",
        why=why,
    )


def _as_utf8(text: str) -> str:
    """The text without characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _summary(run: RunSummary) -> dict[str, float]:
    """The last value of each name; the common names come first."""
    newest: dict[str, tuple[int, float]] = {}
    for each in [run.events.values(), *(steps.values for steps in run.ordered_steps())]:
        for name, (seq, value) in each.items():
            if name not in newest or newest[name][0] < seq:
                newest[name] = (seq, value)
    values = {name: value for name, (_, value) in newest.items()}
    if run.events.best_val_loss is not None:
        values["best_val_loss"] = run.events.best_val_loss
    speed = _steps_per_s(run)
    if speed is not None:
        values["steps_per_s"] = speed
    names = [name for name in FIRST_OF_SUMMARY if name in values]
    names += sorted(values.keys() - set(names))
    return {name: values[name] for name in names[:MOST_SUMMARY]}


def _steps_per_s(summary: RunSummary) -> float | None:
    """Steps per second over the last attempt, pauses included; None if too little is known."""
    newest = next((each for each in reversed(summary.ordered_steps()) if each.rows > 1), None)
    if newest is None or newest.first is None or newest.last is None:
        return None
    steps, seconds = newest.last[1] - newest.first[0], newest.last[2] - newest.first[1]
    return steps / seconds if steps > 0 and seconds > 0 else None


def _damage(summary: RunSummary) -> str | None:
    """Why the run is damaged; None if it is not."""
    if summary.deleting is not None:
        return "its deletion was begun and not finished; delete it again"
    if summary.errors:
        return next(iter(summary.errors.values()))
    if summary.events.refused is not None:
        return f"{summary.events.refused}; open it with a newer midstep"
    if summary.events.damages and not summary.events.records:
        return "no record in events.jsonl is whole"
    return None


def _with_lease(row: RunRow, folder: Path, summary: RunSummary, end: EndState) -> RunRow:
    """The row of a run that has a lease: it is live, was killed, or ended and is still open."""
    lease = read_lease(folder) or {}
    if summary.events.run_id is None and is_run_id(str(lease.get("run_id"))):
        # The lease exists before the first record. Without this, a new run was listed first under
        # an id made from its path, and a second later under its real one.
        row = replace(row, id=str(lease["run_id"]))
    is_live = end.state in LIVE_STATES
    state: str = end.state
    if end.state == "running" and lease.get("state") in ACTIVE_STATES:
        state = str(lease["state"])
    why_not = _why_unreachable(folder, lease)
    # A live run that logs nothing still has heartbeats.
    beat = lease.get("heartbeat_wall")
    times = [each for each in (row.updated_at, beat) if isinstance(each, int | float)]
    counters: dict[str, Any] = {
        name: lease[name]
        for name in ("step", "epoch", "total_steps")
        if is_live and isinstance(lease.get(name), int)
    }
    updated_at = max(times, default=None) if row.ended_at is None else row.updated_at
    return replace(
        row,
        **counters,
        state=state,
        live=is_live,
        reachable=why_not is None,
        why=end.reason or (why_not if is_live else None),
        updated_at=updated_at,
        ended_at=None if is_live else (row.ended_at or updated_at),
    )


def _why_unreachable(folder: Path, lease: Mapping[str, Any]) -> str | None:
    """Why the run cannot receive commands; None if it can."""
    if lease.get("host") != platform.node() or lease.get("boot_id") != boot_id():
        return f"it runs on {lease.get('host')}: read-only here"
    if lock_holder(folder) is None:
        return "its process is gone"
    if not (lease.get("socket") or lease.get("url")):
        return "it has no socket: read-only here"
    return None
