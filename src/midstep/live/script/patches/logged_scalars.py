"""Scalars that a script sends to its own tracker: TensorBoard, W&B, or the log of a trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from midstep.live.script.patches.replaced import Patches

TakeScalars = Callable[[str, Mapping[str, Any]], object]
"""Gets the name of the tracker and the values of one call; see `scalars_in`."""
MOST_SCALARS = 256
"""Of one call; a dict with more is a table."""

SCALAR_SOURCES: Mapping[str, tuple[str, str]] = {
    "torch.utils.tensorboard.writer": ("tensorboard", "SummaryWriter"),
    "tensorboardX.writer": ("tensorboard", "SummaryWriter"),
    "wandb.sdk.wandb_run": ("wandb", "Run"),
    "transformers.trainer": ("trainer", "Trainer"),
}
"""Modules with the name of the tracker and of the class that receives the scalars."""


def take_scalars(patches: Patches, module: ModuleType, take: TakeScalars) -> None:
    """Call `take` with all that is logged by the class of this module, which gets it as before."""
    source, name = SCALAR_SOURCES[module.__name__]
    owner = getattr(module, name, None)
    if source == "tensorboard":
        patches.replace(owner, "add_scalar", lambda usual: _add_scalar(usual, take))
        patches.replace(owner, "add_scalars", lambda usual: _add_scalars(usual, take))
    else:
        patches.replace(owner, "log", lambda usual: _log(usual, source, take))


def _add_scalar(usual: Any, take: TakeScalars) -> Any:
    def add_scalar(writer: Any, tag: str, scalar_value: Any, *arguments: Any, **named: Any) -> Any:
        take("tensorboard", {tag: scalar_value})
        return usual(writer, tag, scalar_value, *arguments, **named)

    return add_scalar


def _add_scalars(usual: Any, take: TakeScalars) -> Any:
    def add_scalars(
        writer: Any, main_tag: str, tag_scalar_dict: Any, *arguments: Any, **named: Any
    ) -> Any:
        take("tensorboard", {main_tag: tag_scalar_dict})
        return usual(writer, main_tag, tag_scalar_dict, *arguments, **named)

    return add_scalars


def _log(usual: Any, source: str, take: TakeScalars) -> Any:
    """Of `wandb.Run.log(data, step, …)` and `Trainer.log(logs, start_time)`."""

    def log(owner: Any, *arguments: Any, **named: Any) -> Any:
        values = arguments[0] if arguments else named.get("data", named.get("logs"))
        if isinstance(values, Mapping):
            take(source, values)
        return usual(owner, *arguments, **named)

    return log


def scalars_in(values: Any, prefix: str = "") -> dict[str, Any]:
    """The numbers and tensors of one element in a dict, also in dicts inside of it.

    >>> scalars_in({"loss": 0.5, "eval": {"accuracy": 1}, "picture": [1, 2]})
    {'loss': 0.5, 'eval/accuracy': 1}
    """
    scalars: dict[str, Any] = {}
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if isinstance(value, Mapping):
            scalars |= scalars_in(value, f"{prefix}{name}/")
        elif isinstance(value, bool | int | float):
            scalars[f"{prefix}{name}"] = value
        elif hasattr(value, "detach") and value.numel() == 1:
            scalars[f"{prefix}{name}"] = value  # on a device it is read later: nothing waits here
        elif hasattr(value, "item") and getattr(value, "size", None) == 1:
            scalars[f"{prefix}{name}"] = value.item()  # a number of NumPy; no table of one cell
        if len(scalars) >= MOST_SCALARS:
            break
    return scalars
