"""Hooks on modules of the user that no copy of a module, on disk or in memory, contains."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle

Kind = Literal["forward", "forward_pre"]


class _HiddenHooks(OrderedDict[Any, Any]):
    """The hooks of a module. Ours are called, and are otherwise not there.

    `torch.save(model)`, `copy.deepcopy(model)` and `torch.jit.script(model)` must give what they
    give without us, so pickling and `values` leave our hooks out.
    """

    def __init__(self, hidden: set[Any]) -> None:
        super().__init__()
        self.hidden = hidden
        """Keys of our hooks."""

    def _others(self) -> OrderedDict[Any, Any]:
        return OrderedDict((key, hook) for key, hook in self.items() if key not in self.hidden)

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return OrderedDict, (), None, None, iter(self._others().items())

    def values(self) -> Any:
        return self._others().values()


def add_hidden_hook(module: nn.Module, kind: Kind, hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook that also gets keyword arguments; returns its handle.

    It is hidden unless the module has hooks of the user.

    >>> import copy
    >>> from torch import nn
    >>> layer = nn.Linear(1, 1)
    >>> handle = add_hidden_hook(layer, "forward_pre", lambda module, args, kwargs: None)
    >>> len(layer._forward_pre_hooks), len(copy.deepcopy(layer)._forward_pre_hooks)
    (1, 0)
    """
    names = (f"_{kind}_hooks", f"_{kind}_hooks_with_kwargs")
    # A handle of a hook of the user refers to these very dicts, so they are only replaced while
    # they are empty.
    if not any(getattr(module, name) for name in names):
        hidden: set[Any] = set()
        for name in names:
            setattr(module, name, _HiddenHooks(hidden))
    handle: RemovableHandle = getattr(module, f"register_{kind}_hook")(hook, with_kwargs=True)
    hooks = getattr(module, names[0])
    if isinstance(hooks, _HiddenHooks):
        hooks.hidden.add(handle.id)
    return handle
