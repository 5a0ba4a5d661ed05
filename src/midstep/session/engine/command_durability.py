"""`CommandDurability`: what a command did survives a kill, or its answer says that it does not.

Two things are enough. The fact of a change is on disk before the answer, and a checkpoint leads to
the state that a command moved to. A resume starts there and repeats the recorded changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.errors import MidstepError
from midstep.session.engine.reapplied_changes import ReappliedChanges
from midstep.session.engine.recorded_history import RecordedHistory
from midstep.session.late_parameters import created_since

if TYPE_CHECKING:
    from midstep.session.checkpoint.checkpoint_writer import CheckpointWriter
    from midstep.session.engine.resume import ResumePoint
    from midstep.session.ranks import RankMeeting
    from midstep.session.run import Run
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import TrainingState


class CommandDurability:
    """Keeps the effects of commands over a kill, for one open run.

    Args:
        run: whose facts have the changes.
        state: of the training.
        writer: writes a checkpoint if none leads to a state.
        record: writes a fact of the engine itself.
        meeting: of the ranks of this run; None without a process group.
    """

    def __init__(
        self,
        run: Run,
        state: TrainingState,
        writer: CheckpointWriter,
        *,
        record: Callable[..., object],
        meeting: RankMeeting | None,
    ) -> None:
        self._run, self._state, self._writer = run, state, writer
        self._record, self._meeting = record, meeting
        self.reapplied = ReappliedChanges(state.parts)
        """Changes of hyperparameters that the restored state does not have yet."""
        self._problem: str | None = None
        state.origin = self._origin

    def _origin(self) -> dict[str, Any]:
        """What a snapshot that is taken now says about where it comes from."""
        run, state = self._run, self._state
        origin: dict[str, Any] = {
            "run_id": run.run_id,
            "attempt": run.attempt,
            "seq": run.facts.seq,
            "pending": self.reapplied.identities,
        }
        if created := created_since(state.parts.model, state.fingerprints.get("model")):
            origin["created"] = created
        if self._meeting is not None:
            origin["world"] = self._meeting.describe(run.run_id)
        return origin

    def continue_run(self, resume_point: ResumePoint | None) -> list[str]:
        """Continue a run that was started before; returns what the user should read about it.

        Finds the acknowledged changes that the restored state lacks.
        """
        history = RecordedHistory.read(self._run.dir)
        notices = []
        if resume_point is None:
            notices.append(self._begin_again(history))
        elif not {name.partition(".")[0] for name in resume_point.changed} & {"model", "optimizer"}:
            self.reapplied.load(history.pending_changes(resume_point.snapshot.origin))
        for change in self.reapplied.pending:
            names = ", ".join(change.new)
            notices.append(f"the change of {names} is repeated at step {change.step:,}")
        return notices

    def _begin_again(self, history: RecordedHistory) -> str:
        words = "this run was started before, but no checkpoint was written"
        if history.checkpoints:
            words = (
                f"this run wrote {history.checkpoints} checkpoints, but none is in "
                f"{self._writer.checkpoints.folder}"
            )
        else:  # killed before its first checkpoint: only the facts have its changes
            self.reapplied.load(history.pending_changes(None))
        words += "; it begins again at step 0"
        self._record(kind="began_again", reason=words)
        return words

    def changed(self, new: Mapping[str, Any]) -> None:
        """Hyperparameters were changed and recorded: from here on a resume changes them again."""
        self._run.facts.sync()
        self.reapplied.supersede(new)

    def moved(self, target: int, cause: str, source: Snapshot | None) -> None:
        """The training is at another step, and that is recorded.

        Args:
            target: the step.
            cause: the command.
            source: the snapshot that was loaded from elsewhere; None after going back.
        """
        self._run.facts.sync()
        history = RecordedHistory.read(self._run.dir)
        if source is None:
            self.reapplied.forget_after(target)
        else:
            self.reapplied.load(history.pending_changes(source.origin))
        self._problem = None
        if self._leads_here(history):
            return  # a resume repeats the steps from that checkpoint on
        try:
            self._writer.write_now(self._state.take(), cause)
        except MidstepError as error:
            self._problem = str(error)

    def _leads_here(self, history: RecordedHistory) -> bool:
        """Whether a checkpoint leads to the present timeline."""
        return any(history.has(name) for name in self._writer.checkpoints.names())

    def confirm(self, checkpoints_off: str | None) -> dict[str, Any]:
        """A field of the command's result that says why its effect does not survive a kill."""
        facts = self._run.facts
        # A move that could not be saved concerns later commands too, until a checkpoint is there.
        if self._problem is not None and self._leads_here(RecordedHistory.read(self._run.dir)):
            self._problem = None
        reason = checkpoints_off or self._problem or facts.fault or facts.durability_lost
        if reason is None:
            return {}
        self._record(kind="not_kept", reason=reason, step=self._state.step)
        return {"not_kept": reason}


def source_fields(source: Snapshot) -> dict[str, Any]:
    """Which state was loaded, for the fact: a resume follows its timeline, not the one left."""
    origin = source.origin
    # The state before step 0 has no origin: it was taken before there were any facts. A checkpoint
    # of an older midstep has none either; it has what was changed up to its step.
    contains = [origin["attempt"], origin["seq"]] if "seq" in origin else [0, 0]
    is_known = "seq" in origin or source.step == 0
    return {"source_timeline": source.timeline, **({"contains": contains} if is_known else {})}
