"""`StepComparisons`: what repeated steps are compared with, and where the result is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.core.errors import MidstepError
from midstep.core.moments import Moment
from midstep.core.standard_streams import print_notice
from midstep.session.engine.recorded_steps import circumstances, read_recorded_steps
from midstep.session.rewind.repeated_steps import UNTIL_RESET, Circumstances, StepComparison

if TYPE_CHECKING:
    from midstep.session.engine.resume import ResumePoint
    from midstep.session.rewind.back import Rewind
    from midstep.session.run import Run
    from midstep.session.state.snapshot import Snapshot
    from midstep.session.state.training_state import TrainingState


class StepComparisons:
    """Compares the steps of one open run that were made before.

    Args:
        run: receives the results as facts, and shows them.
        state: of the training.
        makes_steps: whether the driver makes the steps itself, and so can make one twice.
    """

    def __init__(self, run: Run, state: TrainingState, *, makes_steps: bool) -> None:
        self._run, self._state, self._makes_steps = run, state, makes_steps
        self.last_step_time_s: float | None = None
        """How long the last step before the checkpoint took, after a resume."""
        self.unchecked_resume: Snapshot | None = None
        """What this attempt continues from, if no step after it was recorded."""
        self.given_settings: Mapping[str, Any] = {}
        """The user's own settings; if they changed, steps are not compared with older ones."""

    def follow_record(self, resume_point: ResumePoint, rewind: Rewind) -> None:
        """Let `rewind` compare the steps that this attempt makes again with their record."""
        run, snapshot = self._run, resume_point.snapshot
        if resume_point.changed:
            self.not_compared(f"{', '.join(resume_point.changed)} changed")
            return
        settings = {**self._state.config.describe(), **self._state.parts.describe()}
        try:
            record = read_recorded_steps(
                run.dir, snapshot, settings, attempt=run.facts.attempt, given=self.given_settings
            )
        except (MidstepError, OSError, ValueError) as error:
            # An unreadable record is not a reason to refuse a readable checkpoint.
            self.not_compared(f"the record cannot be read: {error}")
            return
        self.last_step_time_s = record.step_time_s
        if record.marks:
            known = self.circumstances(record.header)
            rewind.follow(record.marks, cause="resume", circumstances=known)
        elif record.header or not self._makes_steps:
            self.not_compared(record.reason)
        else:
            self.unchecked_resume = snapshot

    def not_compared(self, reason: str) -> None:
        """Report why the steps after a resume are not compared."""
        text = f"not compared: {reason}"
        self.report(StepComparison(cause="resume", verdict=None, text=text))

    def report(self, result: StepComparison | None) -> None:
        """Report how the repeated steps came out: in the terminal, on the page, as a fact."""
        if result is None:
            self._run.controller.status.describe(repeated=None)
            return
        if result.verdict is None and result.cause == "back":
            return  # the answer to the command has it
        self._run.controller.status.describe(repeated=result.describe())
        self._record(kind="repeated_steps", **result.describe())
        # Whoever asked for `back` reads its answer; only a difference concerns this terminal too.
        if result.cause != "back" or result.exact is False:
            print_notice(result.text)

    def name_unsaved(self) -> None:
        """A state was restored: name what it does not have, in the terminal and as a fact."""
        for words in self._state.parts.extra_state.unsaved():
            text = f"{words}: {UNTIL_RESET}"
            self._record(kind="inexact", reason=text)
            print_notice(text)

    def circumstances(self, header: Mapping[str, Any] | None = None) -> Circumstances:
        """What may explain that repeated steps differ from those of that header's process.

        None stands for this process.
        """
        from torch.optim.lr_scheduler import ReduceLROnPlateau

        parts = self._state.parts
        weight = next(parts.model.parameters(), None)
        return replace(
            circumstances(header, None if weight is None else weight.device.type),
            unsaved=parts.extra_state.unsaved(),
            rate_follows_loss=isinstance(parts.scheduler, ReduceLROnPlateau),
        )

    def _record(self, **fields: Any) -> None:
        self._run.event(Moment.INTERVENTION, who="system", **fields)
