"""A run as a list shows it: what its facts say, and its true state now."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from midstep.core.ids import is_run_id
from midstep.facts.digest import EVENTS, RunDigest
from midstep.facts.ends import EndState, LeaseWatch, end_state_after, written_bytes
from midstep.facts.flat_config import Setting
from midstep.facts.lease import read_lease
from midstep.facts.lock import boot_id, lock_holder
from midstep.facts.own_files import disk_bytes

__all__ = [
    "LIVE",
    "MOVING",
    "RunRow",
    "current_row",
    "derived_id",
    "facts_row",
    "read_row",
    "unreadable_row",
    "wrote_on",
]

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
MOVING = frozenset({"starting", "running", "pausing", "paused", "stepping", "rewinding", "busy"})
"""What a controller calls a training that has not ended."""
LIVE = MOVING | {"stopping", "not responding"}
"""States of a training whose process lives."""
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow:
    """One run of a list; every field is told on the wire."""

    id: str
    name: str
    directory: str
    """Relative to the outputs root, with `/` between its parts."""
    state: str
    live: bool = False
    """Whether its training goes on, or stands to be looked at."""
    reachable: bool = False
    """Whether commands arrive."""
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
        return {name: _plain(getattr(self, name)) for name in _NAMES}


_NAMES = tuple(each.name for each in fields(RunRow))


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def derived_id(directory: str) -> str:
    """An id for a run that has none of its own, or one that another directory has too.

    >>> derived_id("runs/run_a") == derived_id("runs/run_a"), is_run_id(derived_id("x"))
    (True, True)
    """
    digest = hashlib.blake2b(directory.encode("utf-8", "surrogateescape"), digest_size=12).digest()
    return "".join(_ALPHABET[byte % 32] for byte in digest)


def current_row(row: RunRow, folder: Path, digest: RunDigest, watch: LeaseWatch) -> RunRow:
    """The row with the true state of the run, asked for now."""
    damage = _damage(digest)
    if damage is not None:
        return replace(row, state="damaged", why=damage)
    end = end_state_after(folder, digest.events.end, watch=watch)
    if not digest.has_lease:
        ended_at = row.updated_at if row.ended_at is None else row.ended_at
        is_live = end.state in LIVE
        return replace(
            row,
            state=end.state,
            live=is_live,
            why=end.reason,
            ended_at=None if is_live else ended_at,
        )
    return _leased(row, folder, digest, end)


def wrote_on(folder: Path, digest: RunDigest) -> bool:
    """Whether a run without an end on record has written more since it was digested."""
    stamp = digest.stamps.get(EVENTS)
    known = 0 if stamp is None else stamp[1]
    return digest.events.end is None and written_bytes(folder) > known


def facts_row(directory: str, digest: RunDigest) -> RunRow:
    """What the facts alone say; its state is still to be asked for."""
    events, steps = digest.events, digest.ordered_steps()
    header, last = events.header, max((each.last for each in steps if each.last), default=None)
    named = [events.newest("step"), None if last is None else (last[0], last[1])]
    epoch = events.newest("epoch")
    run_id = events.run_id or (digest.deleting or {}).get("run_id")
    walls = [wall for wall in (events.wall, None if last is None else last[2]) if wall is not None]
    scalars = {name: None for each in steps for name in each.values}
    recipe = header.get("recipe") or events.config.get("recipe")
    return RunRow(
        id=run_id if isinstance(run_id, str) and is_run_id(run_id) else derived_id(directory),
        name=_shown(header.get("name") or directory.rpartition("/")[2]),
        directory=_shown(directory),
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
        tags=tuple(digest.tags),
        note=digest.note,
        config=events.config,
        summary=_summary(digest),
        scalars=tuple(scalars),
        parent=digest.parent,
        bytes=digest.disk_bytes,
    )


def read_row(run_dir: Path) -> RunRow:
    """The row of one run directory, read afresh."""
    digest = RunDigest()
    digest.update(str(run_dir))
    digest.disk_bytes = disk_bytes(str(run_dir))
    return current_row(facts_row(run_dir.name, digest), run_dir, digest, LeaseWatch())


def unreadable_row(directory: str, why: str) -> RunRow:
    """The row of a run of which nothing can be told but why."""
    return RunRow(
        id=derived_id(directory),
        name=_shown(directory.rpartition("/")[2]),
        directory=_shown(directory),
        state="damaged",
        why=why,
    )


def _shown(text: str) -> str:
    """A name that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _summary(digest: RunDigest) -> dict[str, float]:
    """The last value of each name, the usual ones first."""
    found: dict[str, tuple[int, float]] = {}
    for each in [digest.events.values(), *(steps.values for steps in digest.ordered_steps())]:
        for name, (seq, value) in each.items():
            if name not in found or found[name][0] < seq:
                found[name] = (seq, value)
    values = {name: value for name, (_, value) in found.items()}
    if digest.events.best_val_loss is not None:
        values["best_val_loss"] = digest.events.best_val_loss
    speed = _steps_per_s(digest)
    if speed is not None:
        values["steps_per_s"] = speed
    names = [name for name in FIRST_OF_SUMMARY if name in values]
    names += sorted(values.keys() - set(names))
    return {name: values[name] for name in names[:MOST_SUMMARY]}


def _steps_per_s(digest: RunDigest) -> float | None:
    """Over the last attempt, pauses included; None where too little is known."""
    newest = next((each for each in reversed(digest.ordered_steps()) if each.rows > 1), None)
    if newest is None or newest.first is None or newest.last is None:
        return None
    steps, seconds = newest.last[1] - newest.first[0], newest.last[2] - newest.first[1]
    return steps / seconds if steps > 0 and seconds > 0 else None


def _damage(digest: RunDigest) -> str | None:
    """Why the facts cannot be used as they are; None when they can."""
    if digest.deleting is not None:
        return "its deletion was begun and not finished; delete it again"
    if digest.errors:
        return next(iter(digest.errors.values()))
    if digest.events.refused is not None:
        return f"{digest.events.refused}; open it with a newer midstep"
    if digest.events.damages and not digest.events.records:
        return "no record in events.jsonl is whole"
    return None


def _leased(row: RunRow, folder: Path, digest: RunDigest, end: EndState) -> RunRow:
    """A run whose lease is there: live, killed, or ended and still standing."""
    lease = read_lease(folder) or {}
    if digest.events.run_id is None and is_run_id(str(lease.get("run_id"))):
        row = replace(row, id=str(lease["run_id"]))  # its first record is still on the way
    is_live = end.state in LIVE
    state: str = end.state
    if end.state == "running" and lease.get("state") in MOVING:
        state = str(lease["state"])
    why_not = _why_unreachable(folder, lease)
    beat = lease.get("heartbeat_wall")
    beaten = [each for each in (row.updated_at, beat) if isinstance(each, int | float)]
    told = {name: lease.get(name) for name in ("step", "epoch", "total_steps")} if is_live else {}
    known: dict[str, Any] = {name: value for name, value in told.items() if isinstance(value, int)}
    updated_at = max(beaten, default=None)
    if row.ended_at is not None:
        updated_at = row.updated_at
    return replace(
        row,
        **known,
        state=state,
        live=is_live,
        reachable=why_not is None,
        why=end.reason or (why_not if is_live else None),
        updated_at=updated_at,
        ended_at=None if is_live else (row.ended_at or updated_at),
    )


def _why_unreachable(folder: Path, lease: Mapping[str, Any]) -> str | None:
    """Why commands do not arrive; None when they do."""
    if lease.get("host") != platform.node() or lease.get("boot_id") != boot_id():
        return f"it runs on {lease.get('host')}: read-only here"
    if lock_holder(folder) is None:
        return "its process is gone"
    if not (lease.get("socket") or lease.get("url")):
        return "it has no socket: read-only here"
    return None
