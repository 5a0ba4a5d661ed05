"""The gate at the boundary: may the training thread go on, and for how long.

A pure state machine: no threads, no clock. The training thread alone changes it, under the
controller's lock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from midstep.control.command_record import CommandRecord

Mode = Literal["run", "pause"]


@dataclass(kw_only=True)
class Grant:
    """Steps that a `step` command lets pass."""

    record: CommandRecord
    steps_left: int


class Gate:
    """Running, paused, or paused with steps granted; perhaps with a step to run to."""

    def __init__(self) -> None:
        self.mode: Mode = "run"
        self.grants: deque[Grant] = deque()
        self.target: int | None = None
        self._target_record: CommandRecord | None = None
        self._granted_step_runs = False

    @property
    def steps_left(self) -> int:
        """Steps granted and not yet passed."""
        return sum(grant.steps_left for grant in self.grants)

    def pause(self) -> list[CommandRecord]:
        """Close the gate; gives back the commands that this cuts short."""
        self.mode = "pause"
        return self._end_grants()

    def resume(self) -> list[CommandRecord]:
        """Open the gate; gives back the commands that this cuts short."""
        self.mode = "run"
        return self._end_grants()

    def grant(self, record: CommandRecord, steps: int) -> None:
        """Let `steps` steps pass, behind those granted before."""
        self.grants.append(Grant(record=record, steps_left=steps))

    def run_until(self, record: CommandRecord, step: int) -> list[CommandRecord]:
        """Open the gate until `step` steps are finished."""
        ended = self.resume()
        self.target, self._target_record = step, record
        return ended

    def step_ended(self, step: int) -> list[CommandRecord]:
        """Count the step that just passed; gives back the commands that are now complete."""
        ended: list[CommandRecord] = []
        if self._granted_step_runs:
            self._granted_step_runs = False
            self.grants[0].steps_left -= 1
            if self.grants[0].steps_left == 0:
                ended.append(self.grants.popleft().record)
        return ended + self._pause_at_target(step)

    def _pause_at_target(self, step: int) -> list[CommandRecord]:
        if self.target is None or step < self.target:
            return []
        return self.pause()

    def check_open(self, step: int) -> tuple[bool, list[CommandRecord]]:
        """Whether the next step may begin, and the commands that are complete because not."""
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
