"""Watches the forward passes of the modules that are trained."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from midstep.session.hidden_hooks import add_hidden_hook

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle

ModuleCalled = Callable[["nn.Module", tuple[Any, ...], Mapping[str, Any]], None]


class ForwardHooks:
    """Calls a function with what modules receive in their forward passes.

    A module whose `forward` is never called, because the script calls another method of it, is
    seen by the calls of its direct parts.

    Args:
        called: gets module, positional and keyword arguments.
    """

    def __init__(self, called: ModuleCalled) -> None:
        self._called = called
        self._handles: weakref.WeakKeyDictionary[nn.Module, RemovableHandle] = (
            weakref.WeakKeyDictionary()
        )
        self._parts_of: weakref.WeakKeyDictionary[nn.Module, list[nn.Module]] = (
            weakref.WeakKeyDictionary()
        )

    def watch(self, root: nn.Module) -> None:
        """Watch the calls of a module, and of its parts until it is called itself."""
        if root in self._parts_of or is_compiled_in_place(root):
            return
        self._put_on(root)
        parts = [] if is_compiled(root) else _callable_parts(root)
        self._parts_of[root] = parts
        for part in parts:
            if not is_compiled_in_place(part):
                self._put_on(part)

    def _put_on(self, module: nn.Module) -> None:
        if module not in self._handles:
            hook = add_hidden_hook(module, "forward_pre", self._before_forward)
            self._handles[module] = hook

    def _before_forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        for part in self._parts_of.get(module, ()):
            self._take_off(part)
        if module in self._parts_of:
            self._parts_of[module] = []
        self._called(module, args, kwargs)

    def _take_off(self, module: nn.Module) -> None:
        if (handle := self._handles.pop(module, None)) is not None:
            handle.remove()

    def forget(self, root: nn.Module) -> None:
        """Watch neither this module nor anything in it."""
        for module in root.modules():
            self._take_off(module)
            self._parts_of.pop(module, None)

    def close(self) -> None:
        """Watch nothing more."""
        for module in list(self._handles):
            self._take_off(module)
        self._parts_of.clear()


def is_compiled(module: nn.Module) -> bool:
    """Whether `torch.compile` has wrapped the module; then a hook inside would compile again."""
    return hasattr(module, "_orig_mod")


def is_compiled_in_place(module: nn.Module) -> bool:
    """Whether `module.compile()` was called: even a hook on the module itself is compiled."""
    return getattr(module, "_compiled_call_impl", None) is not None


def _callable_parts(root: nn.Module) -> list[nn.Module]:
    """The direct parts of a module; of a list or dict of modules, which is never called, its own.

    Only while its own `forward` may be missing from the calls; see `ForwardHooks`.
    """
    from torch import nn

    parts: list[nn.Module] = []
    for child in root.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            parts += _callable_parts(child)
        else:
            parts.append(child)
    return parts
