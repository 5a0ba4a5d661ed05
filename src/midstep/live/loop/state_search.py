"""Looks for generators in the variables of a loop, and reports state that cannot be saved."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from midstep.session.engine.training_engine import TrainingEngine


def look_for_state(engine: TrainingEngine | None, report: Callable[[str], object]) -> None:
    """Save the generators that the calling loop draws from; report what cannot be saved."""
    from midstep.session.state.generators import declared, search_declared, search_frame

    if engine is None:
        return
    state = engine.state
    known = [*state.known_generators, *state.user_generators.generators.values()]
    search = search_frame(sys._getframe(), [*known, *declared(state.parts)])
    search_declared(search, state.parts)  # again: a hook may be given after `attach`
    for words in state.look_for_state(search):
        report(f"a resume will not be exact: {words}")
