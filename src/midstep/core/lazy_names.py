"""Public names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str], *, loaded: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """The `__all__`, `__getattr__` and `__dir__` of a package.

    Type checkers cannot see the names in the table, so the package repeats them under
    `TYPE_CHECKING`, in the form `X as X` that marks a re-export. A test compares the two.

    Args:
        package: its `__name__`.
        modules: the names of each module, separated by spaces. A module is given in full, or
            relative to the package with a leading dot.
        loaded: public names that the package has already, without this table.

    >>> names, load, _ = lazy_names("midstep.core", {".random_streams": "RandomStream stream_key"})
    >>> names, load("RandomStream").__module__
    (['RandomStream', 'stream_key'], 'midstep.core.random_streams')
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name], package), name)
        # Stored in the module, so that Python does not call `__getattr__` for it again.
        setattr(sys.modules[package], name, value)
        return value

    public = sorted([*homes, *loaded])
    return public, load, lambda: sorted({*vars(sys.modules[package]), *homes})
