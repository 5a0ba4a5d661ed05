"""Resume: whatever can be saved goes on, after a kill anywhere, as if nothing had happened.

A part joins in one line, a stream of data or a whole training:

    assert_resumes(lambda: EpochSeededRandomSampler(data, 0), commit=lambda s, n: s.advance(n))
    assert_session_resumes(make_session, tmp_path, kills=[1, 4], steps=12)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from midstep.core import strict_json
from midstep.core.protocols import Stateful
from midstep.session import Session, StepRecord
from tests.session.same import assert_same

__all__ = [
    "Killed",
    "MakeSession",
    "Resumable",
    "Trace",
    "assert_resumes",
    "assert_session_resumes",
]


class Resumable(Stateful, Protocol):
    """A stream of ids (or of batches of ids) whose place can be saved and put back."""

    def __iter__(self) -> Iterator[Any]:
        """What is still to come."""
        ...


R = TypeVar("R", bound=Resumable)


def assert_resumes(
    make: Callable[[], R],
    at: Iterable[int] | None = None,
    *,
    commit: Callable[[R, int], object] | None = None,
) -> None:
    """Kill the stream after each number of items in `at`, rebuild it, and compare what follows.

    Args:
        make: builds the stream anew, as a restarted process would.
        at: numbers of items after which to kill; every one when left out.
        commit: called with the stream and the number of samples after each item, for streams whose
            place moves when a step is done and not when an item is drawn.
    """
    whole = [_plain(item) for item in make()]
    for position in range(len(whole) + 1) if at is None else at:
        state = _killed_after(make, position, whole, commit)
        _assert_same_rest(make, state, whole, position, commit)


def _killed_after(
    make: Callable[[], R], count: int, whole: list[Any], commit: Callable[[R, int], object] | None
) -> dict[str, Any]:
    """The state after `count` items, as it comes back from a file."""
    stream = make()
    _consume(stream, whole[:count], commit)
    return _through_file(stream.state_dict())


def _assert_same_rest(
    make: Callable[[], R],
    state: dict[str, Any],
    whole: list[Any],
    position: int,
    commit: Callable[[R, int], object] | None,
) -> None:
    """Resume at `position`, be killed again half-way through the rest, resume once more."""
    again = make()
    again.load_state_dict(state)
    half = position + (len(whole) - position) // 2
    _consume(again, whole[position:half], commit)
    twice = make()
    twice.load_state_dict(_through_file(again.state_dict()))
    rest = [_plain(item) for item in twice]
    assert rest == whole[half:], (
        f"killed at {position} and at {half}: {rest[:5]}… is not {whole[half:][:5]}…"
    )


def _consume(stream: R, expected: list[Any], commit: Callable[[R, int], object] | None) -> None:
    """Draw as many items as are expected, and compare each."""
    items = iter(stream)
    for index, wanted in enumerate(expected):
        item = _plain(next(items))
        assert item == wanted, f"item {index} after a resume is {item}, not {wanted}"
        if commit is not None:
            commit(stream, len(item) if isinstance(item, list) else 1)


def _plain(item: Any) -> Any:
    """Ids as integers or lists of them, whatever they came in."""
    return strict_json.plain(item)


def _through_file(state: dict[str, Any]) -> dict[str, Any]:
    """A state must survive strict JSON, and be a copy that the old stream cannot reach."""
    back: dict[str, Any] = strict_json.loads(strict_json.dumps(state))
    return back


# -- whole trainings ------------------------------------------------------------------------------


class Killed(BaseException):
    """Raised in a step, in place of a real kill; nothing of ours may handle it."""


@dataclass
class Trace:
    """What a training gave, step by step over all its lives, and the state it ended in."""

    ids: dict[int, list[Any]] = field(default_factory=dict)
    losses: dict[int, str] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)

    def note(self, step: int, ids: list[Any], loss: str) -> None:
        """One step; one that is made again after a resume must be the same."""
        before = self.ids.setdefault(step, ids), self.losses.setdefault(step, loss)
        assert before == (ids, loss), f"step {step} made again gave {ids}, {loss}, not {before}"

    def close(self, session: Session) -> None:
        """Weights, optimizer, scheduler, order, counters and every generator."""
        last = session.trainer.state.take()
        self.end = {**last.state_tree(), "step": last.step, "epoch": last.epoch}

    def assert_equals(self, expected: Trace) -> None:
        """The same ids and losses at the same steps, the same state to the last bit."""
        assert self.ids == expected.ids, "another stream of ids"
        assert self.losses == expected.losses, "other losses"
        assert_same(self.end, expected.end)


MakeSession = Callable[[dict[str, Any]], Session]
"""Builds everything anew, as a restarted script would; gets settings for `SessionConfig`."""


def assert_session_resumes(
    make: MakeSession,
    save_dir: Path,
    *,
    kills: Iterable[int] | Iterable[tuple[MakeSession, int]],
    steps: int,
    **settings: Any,
) -> Trace:
    """Train once without interruption and once with kills; both must be the same to the bit.

    Args:
        make: builds a session.
        save_dir: where both runs are written.
        kills: steps after whose optimizer step the training is killed, one life each. A pair has
            the session of that life, as with another number of workers.
        steps: in all.
        **settings: for `SessionConfig`; without `checkpoint_every_steps` every step is kept.
    """
    settings = {"checkpoint_every_steps": 1, "resume": "auto", "save_dir": save_dir, **settings}
    expected = Trace()
    _live(make, {**settings, "run_name": "whole"}, expected, steps, None)
    found = Trace()
    lives = [each if isinstance(each, tuple) else (make, each) for each in kills]
    for make_life, kill in lives:
        with suppress(Killed):
            _live(make_life, {**settings, "run_name": "killed"}, found, steps, kill)
            raise AssertionError(f"the training ended before it was killed at step {kill}")
    _live(make, {**settings, "run_name": "killed"}, found, steps, None)
    found.assert_equals(expected)
    return expected


def _live(
    make: MakeSession, settings: dict[str, Any], trace: Trace, steps: int, kill: int | None
) -> None:
    """One life of a process: until the end, or until it is killed."""
    with make(settings) as session:

        @session.on_step
        def note(record: StepRecord) -> None:
            trace.note(record.step, list(record.sample_ids), record.loss.hex())
            if record.step == kill:
                raise Killed

        session.fit(steps=steps)
        trace.close(session)
