"""Hooks on the user's objects, each taken off again when its block ends.

An error of ours inside a hook switches that hook off, says so once, and training goes on.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.optim import Optimizer

__all__ = ["StepListener", "hook_loss", "hook_optimizer", "once_safe"]

log = logging.getLogger("midstep.live")


class StepListener(Protocol):
    """Who is told of optimizer steps and losses."""

    def before_step(self) -> None:
        """The gradients are there, the step is about to be made."""
        ...

    def after_step(self) -> None:
        """The step was made."""
        ...

    def loss_known(self, arguments: Sequence[Any], output: Any) -> None:
        """The loss module gave `output` for `arguments`."""
        ...


@contextmanager
def hook_optimizer(optimizer: Optimizer, listener: StepListener) -> Iterator[None]:
    """Tell the listener of each step that `optimizer` makes."""
    before = once_safe(listener.before_step, "reading the gradients")
    handles = [
        optimizer.register_step_pre_hook(lambda *_: before()),
        optimizer.register_step_post_hook(lambda *_: listener.after_step()),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def hook_loss(loss_fn: Any, listener: StepListener) -> Iterator[None]:
    """Tell the listener what a loss module gives; a plain function cannot be listened to."""
    if not hasattr(loss_fn, "register_forward_hook"):
        yield
        return
    known = once_safe(listener.loss_known, "reading the loss")
    handle = loss_fn.register_forward_hook(lambda _module, given, output: known(given, output))
    try:
        yield
    finally:
        handle.remove()


def once_safe(work: Callable[..., None], words: str) -> Callable[..., None]:
    """`work`, until it raises for the first time; from then on nothing, and a line in the log."""
    broken = False

    def guarded(*arguments: Any, **named: Any) -> None:
        nonlocal broken
        if broken:
            return
        try:
            work(*arguments, **named)
        except Exception:
            # A fault of ours must not end somebody's training; what it costs is said in the log.
            broken = True
            log.exception("%s failed and is off; training goes on", words)

    return guarded
