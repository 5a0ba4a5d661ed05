"""What the step in progress is computed from, held by reference while a breakpoint may stop it.

Nothing is copied and no device is waited for. Everything is dropped when the next step begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from midstep.core.fault_guard import FaultGuard
from midstep.session.hooks.forward_hooks import ForwardHooks
from midstep.session.hooks.installed_hook import are_hooks_paused

if TYPE_CHECKING:
    from midstep.control import DebugController

log = logging.getLogger("midstep.session")
MOST_CALLS = 64
BYTES_HELD = 256 << 20
"""Arguments of earlier calls in a step are dropped beyond this; those of the last one are kept."""
_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True, kw_only=True)
class HeldCall:
    """One call of a declared module in training, with references to its arguments."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    versions: tuple[int, ...]
    """How often each of its tensors was changed in place, in the order of `_tensors`."""
    training: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    """Devices on which it ran in lower precision."""
    nbytes: int

    @property
    def was_modified(self) -> bool:
        """Whether one of its tensors was changed in place since the call."""
        return self.versions != _versions(self.args, self.kwargs)


class HeldStep:
    """References to the batches of a step, and to what each declared module was called with.

    Args:
        controller: its breakpoints say whether anything is held.
        model: the module in training; of a container its parts are watched.
    """

    def __init__(self, controller: DebugController, model: nn.Module) -> None:
        self._controller, self.model = controller, model
        self.current_step: Callable[[], int] = lambda: controller.boundary.finished_steps
        """Finished steps, also while steps are repeated."""
        self.is_on = False
        """Whether a breakpoint may stop the step in progress. Read in every step."""
        self.batches: Sequence[Any] = ()
        """The micro-batches of the step, once it was reported."""
        self.sample_ids: Sequence[Any] | None = None
        self.calls: list[HeldCall] = []
        self.dropped = 0
        """Calls of this step whose arguments are not held any more."""
        self._step: int | None = None
        self._hooks: ForwardHooks | None = None
        self._guard = FaultGuard(
            "holding the inputs of a step", log, lambda _error: self._take_off()
        )
        self._unsubscribe = controller.sinks.on_step_begin(self._begin_step)

    def _begin_step(self) -> None:
        self._forget()
        if self._controller.breakpoints.can_stop and not self._guard.is_off:
            if self._hooks is None:
                self._guard.run(self._put_on)
        elif self._hooks is not None:
            self._take_off()

    def _put_on(self) -> None:
        self._hooks = ForwardHooks(self._called)
        for root in roots_of(self.model):
            self._hooks.watch(root)
        self.is_on = True

    def _take_off(self) -> None:
        hooks, self._hooks, self.is_on = self._hooks, None, False
        if hooks is not None:
            hooks.close()
        self._forget()

    def _forget(self) -> None:
        self.batches, self.sample_ids, self.calls, self.dropped = (), None, [], 0

    def note_batches(self, batches: Sequence[Any], sample_ids: Sequence[Any] | None) -> None:
        """Note the micro-batches of the step that has just ended; only called while `is_on`."""
        self.batches, self.sample_ids = batches, sample_ids

    def _called(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """A declared module is about to run. Passes without gradients train nothing."""
        if torch.is_grad_enabled() and not are_hooks_paused():
            self._guard.run(self._hold, module, args, kwargs)

    def _hold(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        step = self.current_step()
        if step != self._step:  # steps that are repeated pass no boundary
            self._step = step
            self._forget()
        held = _detached(args), _detached(dict(kwargs))
        self.calls.append(
            HeldCall(
                module=module,
                args=held[0],
                kwargs=held[1],
                versions=_versions(*held),
                training=module.training,
                autocast=autocast_now(),
                nbytes=sum(each.nbytes for each in _tensors(held)),
            )
        )
        while len(self.calls) > 1 and self._is_too_much():
            del self.calls[0]
            self.dropped += 1

    def _is_too_much(self) -> bool:
        return len(self.calls) > MOST_CALLS or sum(each.nbytes for each in self.calls) > BYTES_HELD

    def close(self) -> None:
        """Stop holding; a second call changes nothing."""
        self._unsubscribe()
        self._take_off()


def roots_of(model: nn.Module) -> list[nn.Module]:
    """The modules that a training calls: the model, or the parts of a container of several."""
    if type(model) in (nn.ModuleDict, nn.ModuleList):
        return [root for child in model.children() for root in roots_of(child)]
    return [model]


def autocast_now() -> tuple[tuple[str, torch.dtype], ...]:
    """The devices on which operations run in lower precision now, with its type."""
    return tuple(
        (kind, torch.get_autocast_dtype(kind))
        for kind in _DEVICES
        if torch.is_autocast_enabled(kind)
    )


def _detached(value: Any) -> Any:
    """The same with detached tensors of the same memory, so that no graph is kept alive."""
    if type(value) in (torch.Tensor, nn.Parameter):
        return value.detach()
    if type(value) in (tuple, list):
        return type(value)(_detached(item) for item in value)
    if type(value) is dict:
        return {key: _detached(item) for key, item in value.items()}
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value] if value.layout is torch.strided else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return []


def _versions(args: Any, kwargs: Any) -> tuple[int, ...]:
    # Tensors made in inference mode have no such count.
    return tuple(0 if each.is_inference() else each._version for each in _tensors((args, kwargs)))
