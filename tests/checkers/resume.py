"""Resume: whatever can be saved goes on, after a kill anywhere, as if nothing had happened.

A part joins in one line:

    assert_resumes(lambda: EpochSeededRandomSampler(data, 0), commit=lambda s, n: s.advance(n))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from midstep.core import strict_json
from midstep.core.stateful import Stateful

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Resumable", "assert_resumes"]


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
