"""The gate at the boundary: may the training thread continue, and for how many steps.

A pure state machine without threads and clock. Only the training thread changes it, under the
controller's lock. Most methods return the commands that end with the change; the boundary answers
these once the effect is visible.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from midstep.control.command_record import CommandRecord

Mode = Literal["run", "pause"]


@dataclass(kw_only=True)
class Grant:
    """The steps that one `step` command lets pass."""

    record: CommandRecord
    steps_left: int


class Gate:
    """Running, paused, or paused with steps granted; perhaps with a step to run to."""

    def __init__(self) -> None:
        self.mode: Mode = "run"
        self.grants: deque[Grant] = deque()
        self.target: int | None = None
        self._target_record: CommandRecord | None = None
        # A step in progress is counted against the first grant only if it began under that grant.
        # A `step` command that arrives while another step still runs must not lose one to it.
        self._granted_step_runs = False

    @property
    def steps_left(self) -> int:
        """Steps granted and not yet finished."""
        return sum(grant.steps_left for grant in self.grants)

    def pause(self) -> list[CommandRecord]:
        """Close the gate; returns the commands that this ends early."""
        self.mode = "pause"
        return self._end_grants()

    def resume(self) -> list[CommandRecord]:
        """Open the gate; returns the commands that this ends early."""
        self.mode = "run"
        return self._end_grants()

    def grant(self, record: CommandRecord, steps: int) -> None:
        """Let `steps` steps pass, after those granted before."""
        self.grants.append(Grant(record=record, steps_left=steps))

    def run_until(self, record: CommandRecord, step: int) -> list[CommandRecord]:
        """Open the gate until `step` steps are finished."""
        ended = self.resume()  # also ends an earlier target, so this comes first
        self.target, self._target_record = step, record
        return ended

    def step_ended(self, step: int) -> list[CommandRecord]:
        """Count the step that has just finished; returns the commands that are complete now."""
        ended: list[CommandRecord] = []
        if self._granted_step_runs:
            self._granted_step_runs = False
            self.grants[0].steps_left -= 1
            if self.grants[0].steps_left == 0:
                ended.append(self.grants.popleft().record)
        return ended + self._pause_at_target(step)

    def _pause_at_target(self, step: int) -> list[CommandRecord]:
        # `<`, not `!=`: after `move_to`, or in a loop that numbers steps itself, the count can
        # jump over the target.
        if self.target is None or step < self.target:
            return []
        return self.pause()

    def check_open(self, step: int) -> tuple[bool, list[CommandRecord]]:
        """Whether the next step may begin, and the commands that are complete if it may not."""
        # Checked here too: a target that is already reached parks the run before another step.
        ended = self._pause_at_target(step)
        if self.mode == "run":
            return True, ended
        self._granted_step_runs = bool(self.grants)
        return self._granted_step_runs, ended

    def _end_grants(self) -> list[CommandRecord]:
        ended = [grant.record for grant in self.grants]
        if self._target_record is not None:
            ended.append(self._target_record)
        self.grants.clear()
        self.target = self._target_record = None
        self._granted_step_runs = False
        return ended
