"""One hook on one model: put on while wanted, taken off when not, switched off when it raises."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from midstep.session.hooks.hook import Hook


_state = threading.local()


@contextmanager
def hooks_paused() -> Iterator[None]:
    """Hooks see nothing of what this thread does in the block.

    >>> with hooks_paused():
    ...     is_looking_away()
    True
    """
    before = is_looking_away()
    _state.away = True
    try:
        yield
    finally:
        _state.away = before


def is_looking_away() -> bool:
    """Whether this thread is in such a block."""
    return getattr(_state, "away", False)


log = logging.getLogger("midstep.session")


class InstalledHook:
    """Keeps a hook from costing anything, or doing any harm.

    Args:
        hook: what is asked.
        wanted: whether anybody wants its data in the step in progress.
        deliver: takes what it gives.
        tell: takes the hook's name and the reason when it is switched off.
        spend: takes the seconds that it took.
    """

    def __init__(
        self,
        hook: Hook,
        *,
        wanted: Callable[[], bool],
        deliver: Callable[[Hook, Any], None],
        tell: Callable[[str, str], None],
        spend: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self.hook, self._wanted, self._deliver, self._tell = hook, wanted, deliver, tell
        self._spend = spend
        self._handles: list[RemovableHandle] = []
        self._begun = self._broken = False

    def begin(self, model: nn.Module) -> bool:
        """A step begins: be there, or be gone; whether it is there."""
        self._begun = False
        if self._broken or not self._wanted():
            if self._handles:
                self.take_off()
            return False
        if not self._handles:
            self._guarded(self._put_on, model)
        self._guarded(self.hook.begin_step, model)
        return True

    def before(self, model: nn.Module) -> None:
        """The gradients are there."""
        self._begun = not self._broken and self._wanted()
        if self._begun:
            self._guarded(self.hook.before_step, model)
        else:
            self.take_off()

    def after(self, model: nn.Module) -> None:
        """The step was made."""
        if self._begun and not self._broken:
            self._begun = False
            self._guarded(self._finish, model)

    def _finish(self, model: nn.Module) -> None:
        data = self.hook.after_step(model)
        if data is not None:
            self._deliver(self.hook, data)

    def _put_on(self, model: nn.Module) -> None:
        self._handles += self.hook.install(model, self._if_seen)
        for name, module in self.hook.modules(model):
            self._handles.append(
                module.register_forward_hook(self._listener(name), with_kwargs=True)
            )

    def _listener(self, name: str) -> Callable[..., None]:
        def seen(
            module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
        ) -> None:
            self._if_seen(lambda: self.hook.forward(name, module, args, kwargs, output))

        return seen

    def _if_seen(self, work: Callable[[], None]) -> None:
        """Only in training: a pass without gradients is a validation, and some are our own."""
        if not torch.is_grad_enabled() or is_looking_away():
            return
        if not self._broken and self._wanted():
            self._guarded(work)

    def take_off(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> None:
        began = time.perf_counter()
        try:
            with torch.no_grad():
                work(*arguments)
        except Exception as error:
            # A hook is for looking: whatever it raises must not end the training. Said once.
            self._broken = True
            self.take_off()
            log.exception("hook %r failed and is off; training goes on", self.hook.key)
            self._tell(self.hook.key, f"{type(error).__name__}: {error}")
        finally:
            self._spend(time.perf_counter() - began)
