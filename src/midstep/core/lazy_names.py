"""Public names of a package that are loaded when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package.

    Args:
        package: its `__name__`.
        homes: for each name the module that has it, relative to the package with a leading dot.

    >>> load, _ = lazy_names("midstep.core", {"RandomStream": ".streams"})
    >>> load("RandomStream").__module__
    'midstep.core.streams'
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)  # found there from now on
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes})
