"""Tries the function of a view once, before the first step: it must work and draw nothing."""

from __future__ import annotations

import random
import sys
from typing import Any

from midstep.control.samples.view import SampleView, as_view
from midstep.core.errors import ConfigError

TRIALS = ([0], [1], [0, 1, 2])
"""Token ids to try in turn: a vocabulary may lack one of them."""


def checked_view(given: Any) -> SampleView | None:
    """The view that a user gave, once its function was called with token ids of any vocabulary.

    Args:
        given: a view, a tokenizer, a function from token ids to text, or None.

    Raises:
        ConfigError: it is none of these, or its function fails for all of the ids, gives no text,
            or draws random numbers.
    """
    view = as_view(given)
    if view is not None and view.text is not None:
        _try_text(view)
    return view


def _try_text(view: SampleView) -> None:
    before = _Generators()
    try:
        problem = _problem(view)
    finally:
        drawn = before.restore()
    if drawn:
        raise ConfigError(
            f"view(text=…) was tried and drew random numbers from {drawn}. It would change the "
            "training, so it is refused; use a generator of its own in it"
        )
    if problem is not None:
        raise ConfigError(problem)


def _problem(view: SampleView) -> str | None:
    words = ""
    for ids in TRIALS:
        try:
            text = view.decode(list(ids))
        except Exception as error:  # noqa: BLE001 - a function of the user: it is named below
            words = words or (
                f"view(text=…) was tried with the token ids {ids} and raised "
                f"{type(error).__name__}: {str(error)[:200]}. It must accept a list of integers "
                "and return a text"
            )
            continue
        if isinstance(text, str):
            return None
        return (
            f"view(text=…) was tried with the token ids {ids} and returned "
            f"{type(text).__name__}; it must return the text of one sample"
        )
    return words


class _Generators:
    """The global generators of Python, numpy and torch, as they are now."""

    def __init__(self) -> None:
        self._torch: Any = sys.modules.get("torch")
        self._numpy: Any = sys.modules.get("numpy")
        self._states = self._read()

    def _read(self) -> dict[str, Any]:
        states: dict[str, Any] = {"random": random.getstate()}
        if self._numpy is not None:
            states["numpy"] = self._numpy.random.get_state(legacy=False)
        if self._torch is not None:
            states["torch"] = self._torch.get_rng_state()
            if self._torch.cuda.is_initialized():
                states["torch on CUDA"] = self._torch.cuda.get_rng_state_all()
        return states

    def restore(self) -> str:
        """Put the states back; returns which of them had moved, in words."""
        now = self._read()
        moved = [name for name, state in self._states.items() if not _is_same(state, now[name])]
        if "random" in moved:
            random.setstate(self._states["random"])
        if "numpy" in moved:
            self._numpy.random.set_state(self._states["numpy"])
        if "torch" in moved:
            self._torch.set_rng_state(self._states["torch"])
        if "torch on CUDA" in moved:
            self._torch.cuda.set_rng_state_all(self._states["torch on CUDA"])
        return " and ".join(moved)


def _is_same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return all(_is_same(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return all(map(_is_same, first, second))
    if hasattr(first, "tobytes"):
        return bool(first.tobytes() == second.tobytes())
    if hasattr(first, "equal"):
        return bool(first.equal(second))
    return bool(first == second)
