"""`PartRegistry`: the parts of one role by name, from this package and from others."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Generic, TypeVar, get_args

from midstep.core.errors import ConfigError
from midstep.core.field_checks import one_of, require
from midstep.core.sample_spec import SampleKind

log = logging.getLogger("midstep.models")
GROUP = "midstep.parts"
"""Entry points of this group name a function without arguments that registers parts."""
ALL_KINDS: tuple[SampleKind, ...] = get_args(SampleKind)

BuilderT = TypeVar("BuilderT", bound=Callable[..., object])


@dataclass(frozen=True, kw_only=True)
class RegisteredPart(Generic[BuilderT]):
    """A part that a config can name."""

    builder: BuilderT
    """Builds the module."""
    kinds: tuple[SampleKind, ...]
    """Kinds of samples that it works on."""
    is_built_in: bool
    """Whether it comes with midstep. Such a part cannot be replaced."""


class PartRegistry(Generic[BuilderT]):
    """The parts of one role. A later registration replaces an earlier one, not a built-in part.

    Args:
        role: what the parts are, for errors: `encoder`, `decoder` or `latent space`.
    """

    def __init__(self, role: str) -> None:
        self.role = role
        self._parts: dict[str, RegisteredPart[BuilderT]] = {}

    def register(
        self,
        name: str,
        builder: BuilderT,
        *,
        kinds: Iterable[SampleKind] = ALL_KINDS,
        is_built_in: bool = False,
    ) -> BuilderT:
        """Add a part and return its builder.

        Raises:
            ConfigError: the name belongs to a built-in part, or a kind is unknown.
        """
        kinds = tuple(kinds)
        require(*(one_of("kinds", kind, ALL_KINDS) for kind in kinds))
        present = self._parts.get(name)
        if present is not None and present.is_built_in:
            raise ConfigError(f"{self.role} {name!r} is built in; use another name")
        self._parts[name] = RegisteredPart(builder=builder, kinds=kinds, is_built_in=is_built_in)
        return builder

    def names(self, kind: SampleKind | None = None) -> tuple[str, ...]:
        """Names of all parts in order, or of those that work on a kind of sample."""
        load_entry_points()
        parts = sorted(self._parts.items())
        return tuple(name for name, part in parts if kind is None or kind in part.kinds)

    def find(self, name: str) -> RegisteredPart[BuilderT]:
        """The part of that name.

        Raises:
            ConfigError: there is none. The error names the nearest one.
        """
        names = self.names()
        if name in self._parts:
            return self._parts[name]
        nearest = difflib.get_close_matches(str(name), names, n=1)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ConfigError(f"there is no {self.role} {name!r}; {hint}there are {', '.join(names)}")

    def check_kind(self, name: str, kind: SampleKind) -> None:
        """Raise a `ConfigError` if there is no such part, or it does not work on the kind."""
        if kind not in self.find(name).kinds:
            valid = ", ".join(self.names(kind))
            raise ConfigError(
                f"{self.role} {name!r} does not work on samples of kind {kind!r}; "
                f"use one of {valid}"
            )


@cache
def load_entry_points() -> None:
    """Let other packages register their parts, once per process."""
    for entry in entry_points(group=GROUP):
        try:
            entry.load()()
        except Exception:  # a broken package must not hide the other parts
            log.exception("parts %s of %s cannot be used", entry.name, entry.value)
