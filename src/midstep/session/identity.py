"""Which run a directory holds, and whether another attempt at it may be made there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from midstep.core.errors import ConfigError
from midstep.core.ids import is_run_id, new_run_id
from midstep.core.moments import Moment
from midstep.facts import FactsReader, last_attempt, read_lease
from midstep.facts.lock import lock_holder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Existing", "identify"]

Existing = Literal["refuse", "continue"]


def identify(directory: Path, run_id: str | None, existing: Existing) -> tuple[str, int]:
    """The run's id and the number of this attempt; a directory in use keeps its id.

    Args:
        directory: the run directory.
        run_id: drawn before; a new one when left out.
        existing: whether a run that is there already is refused or continued.
    """
    if run_id is not None and not is_run_id(run_id):
        raise ConfigError(f"run id {run_id!r} is not one; draw it with midstep.core.ids.new_run_id")
    earlier = _earlier_attempt(directory)
    if earlier is None:
        return run_id or new_run_id(), 1
    known, attempt = earlier
    if run_id is not None and run_id != known:
        raise ConfigError(
            f"{directory} already holds the run {known}, not {run_id}; choose another run_name"
        )
    if existing == "refuse" and lock_holder(directory) is None:  # else the lease says who has it
        raise ConfigError(
            f"{directory} already holds a run of {_earlier_steps(directory):,} steps; "
            'choose another run_name, or go on in it with Run(existing="continue")'
        )
    return known, attempt + 1


def _earlier_attempt(directory: Path) -> tuple[str, int] | None:
    """Run id and number of the last attempt in this directory; None when it is a new one."""
    if not (directory / "facts" / "events.jsonl").exists():
        return None
    run_id = FactsReader(directory).header().get("run_id")
    return None if run_id is None else (str(run_id), max(1, last_attempt(directory)))


def _earlier_steps(directory: Path) -> int:
    """The finished steps of the run in this directory, as far as its end or its lease tells."""
    ends = (Moment.TRAIN_END, Moment.EXCEPTION)
    events = FactsReader(directory).events()
    told = [event.get("step") for event in events if event["moment"] in ends]
    told.append((read_lease(directory) or {}).get("step"))
    return max((step for step in told if isinstance(step, int)), default=0)
