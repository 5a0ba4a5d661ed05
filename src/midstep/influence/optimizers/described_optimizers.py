"""Which optimizers a preconditioner describes. Every other one is refused by name.

Classes are compared exactly: a subclass may make another step, and NAdam or RMSprop have groups
that look like those of Adam or SGD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from torch.optim import Optimizer

SUPPORTED = (
    "torch.optim.AdamW, torch.optim.Adam without weight decay (both without amsgrad and "
    "maximize), and torch.optim.SGD without momentum (preconditioner='sgd')"
)


def is_adam(optimizer: object) -> bool:
    """Whether an optimizer is exactly `torch.optim.Adam` or `torch.optim.AdamW`."""
    from torch.optim import Adam, AdamW

    return type(optimizer) in (Adam, AdamW)


def is_sgd(optimizer: object) -> bool:
    """Whether an optimizer is exactly `torch.optim.SGD`."""
    from torch.optim import SGD

    return type(optimizer) is SGD


def optimizer_name(optimizer: object) -> str:
    """The class of an optimizer in words: `NAdam`, or `MyAdamW (a subclass of AdamW)`."""
    kind = type(optimizer)
    parents = [each for each in kind.__mro__[1:] if each.__module__.startswith("torch.optim")]
    if kind.__module__.startswith("torch.optim") or not parents or parents[0] is _base():
        return kind.__name__
    return f"{kind.__name__} (a subclass of {parents[0].__name__})"


def _base() -> type:
    from torch.optim import Optimizer

    return Optimizer


def check_described(optimizer: Optimizer, preconditioner: str) -> None:
    """Raise an error that names the optimizer, unless `preconditioner` describes its step.

    Adam and AdamW are also accepted with `sgd`, which then is the plain inner product and not
    their step.

    >>> import torch
    >>> optimizer = torch.optim.NAdam([torch.nn.Parameter(torch.ones(1))])
    >>> check_described(optimizer, "adam_post")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    midstep.core.errors.ConfigError: no preconditioner describes the step of NAdam: ...
    """
    name = optimizer_name(optimizer)
    if not is_adam(optimizer) and not is_sgd(optimizer):
        raise ConfigError(
            f"no preconditioner describes the step of {name}: supported are {SUPPORTED}"
        )
    if preconditioner != "sgd" and not is_adam(optimizer):
        raise ConfigError(
            f"{name} is not an Adam optimizer: pass a torch.optim.AdamW, or preconditioner='sgd'"
        )
    _check_hooks(optimizer, name)
    for group in optimizer.param_groups:
        if is_sgd(optimizer):
            _check_sgd_group(name, group)
        elif preconditioner != "sgd":
            check_adam_group(name, group, decoupled=_is_decoupled(optimizer, group))


def check_has_rate(fastest: float) -> None:
    """Raise an error if `fastest`, the learning rate of the fastest group, is 0."""
    if fastest <= 0:
        raise ConfigError(
            "every group of the optimizer has learning rate 0, so the step changes nothing: give "
            "the optimizer of a step with a learning rate above 0"
        )


def check_adam_group(name: str, group: Mapping[str, Any], *, decoupled: bool) -> None:
    """Raise an error for settings of Adam that the formulas do not have."""
    for setting in ("amsgrad", "maximize"):
        if group.get(setting):
            raise ConfigError(
                f"{name} uses {setting}=True, which the kernel does not support: use a plain AdamW"
            )
    # torch.optim.Adam adds λθ to the gradient, so decay would change v and D.
    if group["weight_decay"] and not decoupled:
        raise ConfigError(
            f"{name} adds its weight decay to the gradient; use torch.optim.AdamW, or no decay"
        )


def _is_decoupled(optimizer: Optimizer, group: Mapping[str, Any]) -> bool:
    from torch.optim import AdamW

    return bool(group.get("decoupled_weight_decay", type(optimizer) is AdamW))


def _check_sgd_group(name: str, group: Mapping[str, Any]) -> None:
    if group.get("momentum"):
        raise ConfigError(
            f"{name} uses momentum={group['momentum']}, which no preconditioner describes: "
            f"supported are {SUPPORTED}"
        )
    if group.get("maximize"):
        raise ConfigError(
            f"{name} uses maximize=True, which the kernel does not support: negate the weights "
            "of the update instead"
        )


def _check_hooks(optimizer: Optimizer, name: str) -> None:
    """Refuse step hooks that are not midstep's: they may change the gradient or the weights."""
    for hook in _step_hooks(optimizer):
        function = getattr(hook, "func", hook)  # of a partial
        owner = getattr(function, "__self__", function)
        module = getattr(owner, "__module__", None) or type(owner).__module__
        if not str(module).startswith("midstep."):
            described = getattr(hook, "__qualname__", type(hook).__name__)
            raise ConfigError(
                f"{name} has a step hook ({described}), which may change its step; remove the hook "
                "(handle.remove()) while influence is computed"
            )


def _step_hooks(optimizer: Optimizer) -> Iterator[Any]:
    for table in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
        yield from getattr(optimizer, table, {}).values()
