"""`StepLoop`: `run.steps`, whose every index is a boundary and part of the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError
from midstep.session.state.step_position import StepPosition

if TYPE_CHECKING:
    from midstep.control import DebugController
    from midstep.live.loop_port import LoopPort
    from midstep.live.loop_replay import LoopReplay
    from midstep.session.engine.training_engine import TrainingEngine


class StepLoop:
    """Yields the indices of the user's `for` loop. Runs on the training thread.

    Args:
        port: ends the steps.
        controller: shows the total.
        engine: takes snapshots; None if the state cannot be saved.
        replay: restores; None without an engine.
        total_steps: of the training, if the user knows it.
    """

    def __init__(
        self,
        port: LoopPort,
        controller: DebugController,
        engine: TrainingEngine | None,
        replay: LoopReplay | None,
        total_steps: int | None,
    ) -> None:
        self._port, self._controller = port, controller
        self._engine, self._replay = engine, replay
        self._position = StepPosition() if engine is None else engine.state.steps
        self._is_total_open = total_steps is None
        self._calls = 0
        self._is_open = False

    def epoch_ended(self) -> None:
        """Count the calls of `run.steps` from 1 in each epoch of `run.epochs`."""
        self._calls = 0
        self._position.loop = self._position.index = 0

    def iterate(self, n: int | None) -> Iterator[int]:
        """Indices up to `n - 1`, from the resumed one; without end if `n` is None.

        A second loop after the first one is another part of the training. A resume skips the loops
        that were finished before its checkpoint.
        """
        if n is not None and (not isinstance(n, int) or n < 0):
            raise ConfigError(f"run.steps needs a number of steps or None, got {n!r}")
        if self._is_open:
            raise ConfigError("run.steps was called inside a loop over run.steps; use one of them")
        self._calls += 1
        return self._iterate(n, self._calls)

    def _iterate(self, n: int | None, call: int) -> Iterator[int]:
        port, position = self._port, self._position
        if not self._begin(n, call):
            return
        self._is_open = True
        try:
            # Read again each time: a boundary may have rewound the position.
            while n is None or position.index < n:
                port.in_iteration = True
                port.time_step()
                try:
                    yield position.index
                except GeneratorExit:  # `break`: this iteration is over, too
                    position.index += 1
                    raise
                position.index += 1
                port.in_iteration = False
                self._end_iteration()
        finally:
            self._is_open = port.in_iteration = False
            self._end()

    def _begin(self, n: int | None, call: int) -> bool:
        """The loop begins, perhaps in the middle; False if a resume is beyond it."""
        if self._replay is not None and not self._replay.begin_steps(call):
            return False
        self._show_total(n)
        self._port.enter_steps()
        return True

    def _show_total(self, n: int | None) -> None:
        """The total of the loop is that of the run as long as every index has had a step."""
        if self._is_total_open:
            is_first = self._controller.boundary.finished_steps == self._position.index
            self._controller.status.describe(total_steps=n if is_first else None)

    def _end_iteration(self) -> None:
        """The next index is requested: the boundary, with or without a finished step."""
        if self._port.is_step_made:
            self._port.end_step(in_pass=True)
            return
        if self._is_total_open:
            self._is_total_open = False
            self._controller.status.describe(total_steps=None)
        self._port.pass_index()

    def _end(self) -> None:
        """The loop is left: no state inside it can be reached again."""
        if self._engine is not None and self._replay is not None and not self._engine.run.ended:
            self._replay.in_pass = False
            self._engine.rewind.ring.clear()
            self._replay.restart()
