"""`RecordedHistory`: what the facts of a run say about how it came to where it is.

A resume reads it: which checkpoints belong to the current timeline, and which changes of
hyperparameters a checkpoint does not have yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from midstep.core.moments import Moment
from midstep.facts import FactsReader
from midstep.facts.read.timelines import Rewind, path_of
from midstep.session.checkpoint.checkpoint_folders import CheckpointName

if TYPE_CHECKING:
    from midstep.session.state.snapshot import Snapshot

Contained = tuple[int, int]
"""Attempt and sequence number of a fact: what a state has seen of the facts, up to there."""


class HparamsChange(NamedTuple):
    """A change of hyperparameters by a command, from its fact."""

    identity: Contained
    """Attempt and sequence number of its fact."""
    timeline: int
    step: int
    """Finished steps when it was made."""
    new: Mapping[str, list[Any]]
    """The values that were set by name, one per parameter group."""


@dataclass(frozen=True, kw_only=True)
class RecordedHistory:
    """The part of the facts that a resume needs. It is read once and does not change."""

    run_id: str | None = None
    timeline: int = 0
    """The current timeline."""
    limits: Mapping[int, int | None] = field(default_factory=lambda: {0: None})
    """Timelines that lead to the current one, each with the last step that counts."""
    changes: tuple[HparamsChange, ...] = ()
    """Changes of hyperparameters that led to the current state, in the order of their steps."""
    checkpoints: int = 0
    """How many checkpoints were written."""

    @classmethod
    def read(cls, run_dir: Path) -> RecordedHistory:
        """The history of a run directory; an empty one if it has no facts yet."""
        if not (run_dir / "facts").is_dir():
            return cls()
        reader = FactsReader(run_dir)
        events = reader.events()
        by_kind: dict[str, list[dict[str, Any]]] = {"rewind": [], "hparams": [], "checkpoint": []}
        for event in events:
            if event["moment"] == Moment.INTERVENTION and event.get("kind") in by_kind:
                by_kind[event["kind"]].append(event)
        timeline = max((int(event["timeline"]) for event in events), default=0)
        path = path_of(timeline, [_rewind(event) for event in by_kind["rewind"]])
        contained = _contained_by_timeline(by_kind["rewind"], path.limits)
        changes = [
            change
            for change in (_change(event) for event in by_kind["hparams"])
            if _counts(path.limits, change.timeline, change.step)
            and change.identity <= contained.get(change.timeline, change.identity)
        ]
        return cls(
            run_id=reader.header().get("run_id"),
            timeline=timeline,
            limits=path.limits,
            changes=_without_superseded(changes),
            checkpoints=len(by_kind["checkpoint"]),
        )

    def has(self, name: CheckpointName) -> bool:
        """Whether a checkpoint is on the way to the current state, not on an abandoned timeline."""
        return _counts(self.limits, name.timeline, name.step)

    def refuse(self, snapshot: Snapshot) -> str | None:
        """Why a checkpoint in this run's directory cannot be used: another run took it."""
        return refuse_other_run(snapshot, self.run_id)

    def pending_changes(self, origin: Mapping[str, Any] | None) -> list[HparamsChange]:
        """The changes that a state does not have yet.

        Args:
            origin: of the snapshot it was restored from; None for the state before step 0.
        """
        if origin is None:
            return list(self.changes)
        if "seq" not in origin:
            return []  # an older checkpoint does not say what it has
        seen = (int(origin["attempt"]), int(origin["seq"]))
        was_pending = {tuple(identity) for identity in origin.get("pending", ())}
        return [
            change
            for change in self.changes
            if change.identity > seen or change.identity in was_pending
        ]


def refuse_other_run(snapshot: Snapshot, run_id: str | None) -> str | None:
    """Why a snapshot is not one of the run `run_id`, in words; None if it is, or may be."""
    taken_by = snapshot.origin.get("run_id")
    if taken_by in (None, run_id):
        return None
    return (
        f"it was taken by the run {taken_by}, and this is {run_id or 'a new run'}; to continue "
        "that run elsewhere, copy its whole directory"
    )


def _counts(limits: Mapping[int, int | None], timeline: int, step: int) -> bool:
    if timeline not in limits:
        return False
    limit = limits[timeline]
    return limit is None or step <= limit


def _rewind(event: Mapping[str, Any]) -> Rewind:
    """A rewind whose parent is the timeline that its state came from.

    For `load_checkpoint` that may be another one than the timeline that was left.
    """
    timeline = int(event["timeline"])
    left = int(event.get("parent", timeline - 1))
    return Rewind(
        timeline=timeline,
        parent=int(event.get("source_timeline", left)),
        step=int(event["step"]),
        from_step=int(event["from_step"]),
    )


def _contained_by_timeline(
    rewinds: Iterable[Mapping[str, Any]], limits: Mapping[int, int | None]
) -> dict[int, Contained]:
    """For each earlier timeline of the path, the last fact that the state still has.

    Going back keeps every change up to its step. A checkpoint that is loaded has only those that
    were made before it was taken.
    """
    contained: dict[int, Contained] = {}
    for event in rewinds:
        timeline = int(event["timeline"])
        if timeline not in limits or "contains" not in event:
            continue
        attempt, seq = event["contains"]
        for earlier in limits:
            if earlier < timeline:
                known = contained.get(earlier, (attempt, seq))
                contained[earlier] = min(known, (attempt, seq))
    return contained


def _without_superseded(changes: Sequence[HparamsChange]) -> tuple[HparamsChange, ...]:
    """The changes in the order of their steps, without values that were set again.

    After a resume at an earlier step, a new change may come before a recorded one by its step. It
    was made later, so its values win.
    """
    left = []
    for change in changes:
        later = (
            other
            for other in changes
            if other.identity > change.identity and other.step < change.step
        )
        names = {name for other in later for name in other.new}
        if new := {name: values for name, values in change.new.items() if name not in names}:
            left.append(change._replace(new=new))
    return tuple(sorted(left, key=lambda change: (change.step, change.identity)))


def _change(event: Mapping[str, Any]) -> HparamsChange:
    return HparamsChange(
        identity=(int(event["attempt"]), int(event["seq"])),
        timeline=int(event["timeline"]),
        step=int(event["step"]),
        new=event["new"],
    )
