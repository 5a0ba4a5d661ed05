"""`python -m midstep.live.recipe_process`: train a recipe in its own process, as stdin requests.

The launcher has made the run's directory and chosen its id. This process answers with one line of
JSON on the descriptor named in the request: `{"started": true}` once the run has begun, or
`{"refused": reason}` if settings or data are wrong. After that both are independent.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core import strict_json
from midstep.core.errors import MidstepError
from midstep.live.launch_answer import answer_launcher

if TYPE_CHECKING:
    from midstep.loops.recipes import RecipeTraining
    from midstep.session import Run


@dataclass(frozen=True, kw_only=True)
class RecipeRequest:
    """What this process trains, and where."""

    recipe: str
    """Name of the recipe."""
    settings: dict[str, Any]
    """Its settings; those left out have their defaults."""
    name: str
    """Name of the run, given by the user."""
    run_id: str
    """Chosen by the launcher."""
    run_dir: str
    """Made by the launcher."""
    paused: bool
    """Pause before the first step."""
    answer_to: int
    """Descriptor for the one line of the answer."""


def main() -> int:
    """Train what stdin requests; returns the exit code."""
    from midstep.loops.recipes import find_recipe

    request = RecipeRequest(**strict_json.loads(sys.stdin.buffer.read()))
    try:
        # Wrong settings and data are refused here, before the run begins.
        training = find_recipe(request.recipe).prepare(request.settings)
        run = training.open_run(
            name=request.name, run_dir=Path(request.run_dir), run_id=request.run_id
        )
    except MidstepError as error:
        answer_launcher(request.answer_to, {"refused": str(error)}, Path(request.run_dir))
        return 2
    _train(training, run, request)
    return 0 if run.unsaved is None else 1


def _train(training: RecipeTraining, run: Run, request: RecipeRequest) -> None:
    from midstep.live.run_socket import serve_on_socket
    from midstep.session.signals import stop_at_signals

    if request.paused:
        run.controller.pause()
    with stop_at_signals(run.controller, run.note_stop), run, serve_on_socket(run):
        answer_launcher(request.answer_to, {"started": True}, Path(request.run_dir))
        _print(f"run {run.run_id}: {request.recipe} {strict_json.dumps(request.settings)}")
        training.run_to_end(run)
        _print(f"ended after {run.step:,} steps")


def _print(line: str) -> None:
    """Print a line, which the run keeps."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
