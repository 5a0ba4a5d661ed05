"""`python -m midstep.live.recipe_process`: a recipe in a process of its own, asked for on stdin.

Whoever starts it has allocated the run's directory and drawn its id. One line of JSON comes back on
the descriptor named in the request: `{"started": true}` once the run has begun, or
`{"refused": reason}` when settings or data are wrong. From then on the two need each other no more.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.errors import MidstepError

if TYPE_CHECKING:
    from midstep.loops.recipes import RecipeTraining
    from midstep.session import Run

__all__ = ["RecipeRequest", "main"]


@dataclass(frozen=True, kw_only=True)
class RecipeRequest:
    """What a child is to train, and where."""

    recipe: str
    """Name of the recipe."""
    settings: dict[str, Any]
    """Its settings; defaults for those left out."""
    name: str
    """What the user calls the run."""
    run_id: str
    """Drawn by whoever asks."""
    run_dir: str
    """Allocated by whoever asks."""
    paused: bool
    """Stand before the first step until resumed."""
    answer_to: int
    """Descriptor on which the one line of answer is awaited."""


def main() -> int:
    """Train what stdin asks for; gives back the exit status."""
    asked = RecipeRequest(**strict_json.loads(sys.stdin.buffer.read()))
    try:
        training, run = _begin(asked)
    except MidstepError as error:
        _answer(asked, {"refused": str(error)})
        return 2
    return _train(training, run, asked)


def _begin(asked: RecipeRequest) -> tuple[RecipeTraining, Run]:
    """Everything that can be wrong with settings and data is found before the run is begun."""
    from midstep.loops.recipes import find_recipe

    training = find_recipe(asked.recipe).prepare(asked.settings)
    run = training.open_run(name=asked.name, run_dir=Path(asked.run_dir), run_id=asked.run_id)
    return training, run


def _train(training: RecipeTraining, run: Run, asked: RecipeRequest) -> int:
    from midstep.live.run_socket import serve_on_socket
    from midstep.session.signals import stop_at_signals

    def note(cause: str) -> None:
        run.stop_reason = cause

    if asked.paused:
        run.controller.pause()
    with stop_at_signals(run.controller, note), run, serve_on_socket(run):
        _answer(asked, {"started": True})
        _say(f"run {run.run_id}: {asked.recipe} {strict_json.dumps(asked.settings)}")
        training.run_to_end(run)
    _say(f"{run.status} after {run.step:,} steps")
    return 0


def _say(line: str) -> None:
    """A line for the run's console."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _answer(asked: RecipeRequest, said: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # whoever asked is gone; the run is not
        os.write(asked.answer_to, f"{strict_json.dumps(said)}\n".encode())
    os.close(asked.answer_to)


if __name__ == "__main__":
    sys.exit(main())
