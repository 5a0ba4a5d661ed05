"""One hook on one model: put on while needed, taken off when not, switched off if it raises."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from midstep.control.capture.host_copy import capture_context
from midstep.session.hidden_hooks import add_hidden_hook

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from midstep.session.hooks.hook import Hook

log = logging.getLogger("midstep.session")
_thread = threading.local()


@contextmanager
def hooks_paused() -> Iterator[None]:
    """Hooks ignore every forward pass of this thread inside the block.

    For passes of our own with gradients, such as those of an influence command.

    >>> with hooks_paused():
    ...     are_hooks_paused()
    True
    """
    was_paused = are_hooks_paused()
    _thread.is_paused = True
    try:
        yield
    finally:
        _thread.is_paused = was_paused


def are_hooks_paused() -> bool:
    """Whether this thread is inside `hooks_paused`."""
    return getattr(_thread, "is_paused", False)


class InstalledHook:
    """Runs a hook only while its data is wanted, and keeps its errors from the training.

    Args:
        hook: the hook.
        is_wanted: returns whether its data is wanted in the step in progress.
        deliver: gets the hook and its data.
        report_failure: gets the hook's key and the reason when it is switched off.
        spend: gets the seconds that it took.
    """

    def __init__(
        self,
        hook: Hook,
        *,
        is_wanted: Callable[[], bool],
        deliver: Callable[[Hook, Any], None],
        report_failure: Callable[[str, str], None],
        spend: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self.hook, self._is_wanted, self._deliver = hook, is_wanted, deliver
        self._report_failure, self._spend = report_failure, spend
        self._handles: list[RemovableHandle] = []
        # Whether `before` ran in this step: without the gradients the hook has no data.
        self._has_begun = self._has_failed = False

    def begin(self, model: nn.Module) -> bool:
        """Begin a step: put the hook on the model or take it off. Returns whether it is on."""
        self._has_begun = False
        if self._has_failed or not self._is_wanted():
            if self._handles:
                self.take_off()
            return False
        # Handles stay from step to step: registering them again each time would be slower.
        if not self._handles:
            self._guarded(self._put_on, model)
        self._guarded(self.hook.begin_step, model)
        return True

    def before(self, model: nn.Module, held: frozenset[int]) -> None:
        """Let the hook read the gradients, before an optimizer steps."""
        if not self._has_begun:
            # Tested again: the subscription may have ended since the step began.
            self._has_begun = not self._has_failed and self._is_wanted()
            if not self._has_begun:
                self.take_off()
                return
            self._guarded(self.hook.before_step, model)
        if not self._has_failed:
            self._guarded(self.hook.before_optimizer, model, held)

    def after_one(self, model: nn.Module) -> None:
        """Let the hook read the weights, after an optimizer has stepped."""
        if self._has_begun and not self._has_failed:
            self._guarded(self.hook.after_optimizer, model)

    def after(self, model: nn.Module) -> None:
        """Deliver the data of the hook, after all optimizers have stepped."""
        if self._has_begun and not self._has_failed:
            self._has_begun = False
            self._guarded(self._finish, model)

    def _finish(self, model: nn.Module) -> None:
        data = self.hook.after_step(model)
        if data is not None:
            self._deliver(self.hook, data)

    def _put_on(self, model: nn.Module) -> None:
        self._handles += self.hook.install(model, self._run_in_training)
        for name, module in self.hook.modules(model):
            self._handles.append(add_hidden_hook(module, "forward", self._forward_hook(name)))

    def _forward_hook(self, name: str) -> Callable[..., None]:
        def forward_hook(
            module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
        ) -> None:
            self._run_in_training(lambda: self.hook.forward(name, module, args, kwargs, output))

        return forward_hook

    def _run_in_training(self, work: Callable[[], None]) -> None:
        """Run `work` only in training: a pass without gradients is a validation."""
        if not torch.is_grad_enabled() or are_hooks_paused():
            return
        if not self._has_failed and self._is_wanted():
            self._guarded(work)

    def take_off(self) -> None:
        """Remove the hook from the model."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _guarded(self, work: Callable[..., Any], *arguments: Any) -> None:
        began = time.perf_counter()
        try:
            with capture_context():
                work(*arguments)
        except Exception as error:
            # A hook only reads: whatever it raises must not end the training. Reported once.
            self._has_failed = True
            self.take_off()
            log.exception("hook %r failed and is off; training continues", self.hook.key)
            self._report_failure(self.hook.key, f"{type(error).__name__}: {error}")
        finally:
            self._spend(time.perf_counter() - began)
