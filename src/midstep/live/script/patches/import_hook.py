"""Calls functions right after the script has imported the modules that they change."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

ChangeModule = Callable[[ModuleType], object]


class ImportHook(importlib.abc.MetaPathFinder):
    """Calls a function with each of some modules when its code has run.

    The usual finders and loaders find and load the module; afterwards it has its usual loader.

    Args:
        changes: by the full name of the module.
    """

    def __init__(self, changes: Mapping[str, ChangeModule]) -> None:
        self._changes = dict(changes)

    def install(self) -> None:
        """Wait for the imports; a module that is loaded already is changed at once."""
        for name in [name for name in self._changes if name in sys.modules]:
            self._changes.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Change no further module; a second call changes nothing."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that waits for its change; None for any other."""
        change = self._changes.pop(name, None)
        if change is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ChangingLoader(spec.loader, change)
                return spec
        self._changes[name] = change  # not there yet: the script may add to `sys.path` and retry
        return None


class _ChangingLoader(importlib.abc.Loader):
    """Loads as the usual loader, then calls a function with the module."""

    def __init__(self, usual: importlib.abc.Loader, change: ChangeModule) -> None:
        self._usual, self._change = usual, change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        spec.loader = self._usual
        try:
            return self._usual.create_module(spec)
        finally:
            spec.loader = self

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._usual
        module.__loader__ = self._usual
        self._usual.exec_module(module)
        self._change(module)
