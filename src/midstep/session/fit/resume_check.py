"""The check of a resume after which no recorded step is repeated: the first step is made twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.session.ranks import RankGroup
from midstep.session.rewind.repeated_steps import NO_RECORD

if TYPE_CHECKING:
    from midstep.session.engine.training_engine import TrainingEngine
    from midstep.session.fit.trainer import Trainer

MOST_S = 1.0
"""Two steps must take less than this, by the time of the last recorded one."""


def check_first_step(trainer: Trainer, engine: TrainingEngine) -> None:
    """Make the next step once, go back, and compare it with the next step of the training.

    No hook of the user is called and nothing is reported. What is in no state, such as a generator
    that no one knows of, has moved by then, so the training's own step comes out differently. Equal
    steps show that the step is repeatable, not that the state is the one that was saved. An error
    of the step is raised from here: a sampler with hidden state is refused the first time it is
    drawn from, and perhaps not the second time.
    """
    comparisons = engine.comparisons
    start, comparisons.unchecked_resume = comparisons.unchecked_resume, None
    reason = _why_not(trainer, engine)
    if reason is not None or start is None:
        comparisons.not_compared(reason or NO_RECORD)
        return
    state, timeline = trainer.state, trainer.state.timeline
    try:
        with trainer.replay():
            mark = trainer.advance().mark
    finally:
        state.restore(start)
        state.timeline = timeline  # chosen by the open run
    if mark is not None:
        engine.rewind.follow({start.step + 1: mark}, cause="resume", is_recorded=False)


def _why_not(trainer: Trainer, engine: TrainingEngine) -> str | None:
    """Why the step is not made twice, in words; None if it is."""
    step_time_s = engine.comparisons.last_step_time_s
    if not trainer.config.resume_check:
        return f"{NO_RECORD}, and resume_check is off"
    if (group := RankGroup.find()) is not None:
        # Ranks may have different records; a step of one rank alone would part their collectives.
        return f"{NO_RECORD}, and {group.words} makes no step that the others do not make"
    if trainer.finished:
        return f"{NO_RECORD}, and no step is left"
    if trainer.is_known_to_be_over:
        return f"{NO_RECORD}, and an epoch ends before the next step"
    if step_time_s is not None and 2 * step_time_s > MOST_S:
        return f"{NO_RECORD}, and a step takes {step_time_s:.1f} s"
    return None
