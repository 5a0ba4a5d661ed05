"""The user's own objects of a training that no other part holds: `extra_state`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful
from midstep.data.random_state import preserve_rng
from midstep.session.state.env_state import EnvState
from midstep.session.state.state_tree import check_savable

MOST_NAMED = 3
"""Attributes of an environment that one sentence names."""
_KINDS = (
    "an object with state_dict and load_state_dict, an array, a tensor, or two functions (get, set)"
)


class _Entry(NamedTuple):
    """How the state of one object is read and restored."""

    get: Callable[[], Any]
    set: Callable[[Any], object]


class ExtraState:
    """The user's own objects as one part of a snapshot, each under its name.

    An array or tensor is restored in place. Of two functions `(get, set)`, the first returns the
    value to save, and the second is called with it.

    Args:
        parts: by name; objects with `state_dict` and `load_state_dict`, arrays, or pairs.

    >>> import torch
    >>> average, best = torch.nn.Linear(1, 1, bias=False), torch.zeros(3)
    >>> extra = ExtraState({"average": average, "best": best})
    >>> extra.names, list(extra.state_dict()["average"]), extra.state_dict()["best"] is best
    (['average', 'best'], ['weight'], True)
    """

    def __init__(self, parts: Mapping[str, Any] | None = None) -> None:
        self._parts = dict(parts or {})
        self._entries: dict[str, _Entry] = {}
        for name, part in self._parts.items():
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    f"extra_state={{{name!r}: …}} needs a name; use text such as 'ema'"
                )
            self._entries[name] = _entry(name, part)

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def parts(self) -> list[Any]:
        """What the user gave."""
        return list(self._parts.values())

    @property
    def names(self) -> list[str]:
        """The names, sorted."""
        return sorted(self._parts)

    def check(self) -> None:
        """Take each state once, so that what cannot be saved is refused before the first step.

        Raises:
            UnsavableError: with the path of the value, such as `extra_state.buffer.lock`.
        """
        if self._entries:
            with preserve_rng():  # a `state_dict` of the user may draw
                for name, entry in self._entries.items():
                    check_savable(entry.get(), ("extra_state", name))

    def environments(self) -> dict[str, EnvState]:
        """The environments, by name."""
        return {name: each for name, each in self._parts.items() if isinstance(each, EnvState)}

    def unsaved(self) -> list[str]:
        """For each environment that was restored without some attribute: half a sentence."""
        return [
            f"{', '.join(f'extra_state.{name}.{path}' for path in each.unsaved[:MOST_NAMED])}"
            f"{' and others' if len(each.unsaved) > MOST_NAMED else ''} cannot be saved"
            for name, each in self.environments().items()
            if each.unsaved
        ]

    def state_dict(self) -> dict[str, Any]:
        """The state of each object."""
        return {name: entry.get() for name, entry in self._entries.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore each object; the names must be the same as in `state`."""
        if problem := extra_state_differs(sorted(state), self.names):
            raise ConfigError(problem)
        self.load_known(state)

    def load_known(self, state: Mapping[str, Any]) -> None:
        """Restore the objects whose names are in `state`; leave the others unchanged."""
        for name, entry in self._entries.items():
            if name in state:
                entry.set(state[name])


def _entry(name: str, part: Any) -> _Entry:
    import numpy as np
    import torch

    if isinstance(part, Stateful) and not isinstance(part, type):
        return _Entry(part.state_dict, part.load_state_dict)
    if isinstance(part, torch.Tensor | np.ndarray):
        return _Entry(lambda: part, lambda value: _copy_into(name, part, value))
    if isinstance(part, tuple | list) and len(part) == 2 and all(map(callable, part)):
        return _Entry(part[0], part[1])
    raise ConfigError(
        f"extra_state[{name!r}] is a {type(part).__name__} without state_dict and "
        f"load_state_dict, so it cannot be saved; give {_KINDS}"
    )


def _copy_into(name: str, part: Any, value: Any) -> None:
    """Restore an array in place: other objects of the user may hold it, or views of it."""
    import torch

    saved, given = _form(value), _form(part)
    if saved != given:
        raise ConfigError(
            f"extra_state[{name!r}] is {given}, the snapshot has {saved}; give the same array, or "
            "two functions (get, set)"
        )
    if isinstance(part, torch.Tensor):
        with torch.no_grad():
            part.copy_(value)
    else:
        part[...] = value


def _form(array: Any) -> str:
    kind = "a tensor" if hasattr(array, "untyped_storage") else f"a {type(array).__name__}"
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    return kind if shape is None else f"{kind} of shape {tuple(shape)} and type {dtype}"


def extra_state_differs(saved: Sequence[str], given: Sequence[str]) -> str | None:
    """How the names of `extra_state` differ between a checkpoint and a session; None if equal.

    >>> extra_state_differs(["ema"], [])
    "extra_state lacks 'ema', which the checkpoint has: give extra_state={'ema': …}"
    """
    missing, added = sorted({*saved} - {*given}), sorted({*given} - {*saved})
    problems = []
    if missing:
        names = ", ".join(map(repr, missing))
        remedy = ", ".join(f"{name!r}: …" for name in missing)
        problems.append(
            f"extra_state lacks {names}, which the checkpoint has: give extra_state={{{remedy}}}"
        )
    if added:
        names = ", ".join(map(repr, added))
        problems.append(f"extra_state has {names}, which the checkpoint lacks: leave it out")
    return "; ".join(problems) or None
