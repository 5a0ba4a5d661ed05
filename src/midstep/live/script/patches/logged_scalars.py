"""What a script sends to its own tracker: TensorBoard, W&B, or the log of a trainer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from midstep.core.errors import ConfigError
from midstep.core.media.given_values import Unreadable, histogram, own_picture, own_value
from midstep.core.media.media_value import MediaValue
from midstep.live.script.patches.function_patches import Patches

TakeScalars = Callable[[str, Mapping[str, Any]], object]
"""Gets the name of the tracker and the values of one call; see `scalars_in`."""
MOST_SCALARS = 256
"""Scalars of one call; a dict with more is a table."""

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
        for method, read in MEDIA_METHODS.items():
            patches.replace(owner, method, partial(_add_media, take=take, read=read))
    else:
        patches.replace(owner, "log", lambda usual: _log(usual, source, take))
        _replace_bound_log(patches, owner)


def _replace_bound_log(patches: Patches, run_class: Any) -> None:
    """`wandb.init` sets `wandb.log` to the method of its run: an older one is not the new one."""
    wandb = sys.modules.get("wandb")
    run = getattr(getattr(wandb, "log", None), "__self__", None)
    if isinstance(run, run_class):
        patches.replace(wandb, "log", lambda _usual: partial(run_class.log, run))


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


def _add_media(usual: Any, *, take: TakeScalars, read: Callable[..., Any]) -> Any:
    """Of `add_image(tag, img_tensor, …)` and the like."""

    def add(writer: Any, tag: str, *arguments: Any, **named: Any) -> Any:
        try:
            value = read(*arguments, **named)
        except TypeError as error:  # arguments that the writer does not take either
            value = Unreadable(str(error))
        take("tensorboard", {tag: value})
        return usual(writer, tag, *arguments, **named)

    return add


def _image(img_tensor: Any, *_: Any, dataformats: str = "CHW", **__: Any) -> Any:
    return own_picture(img_tensor, dataformats)


def _images(img_tensor: Any, *_: Any, dataformats: str = "NCHW", **__: Any) -> Any:
    return own_picture(img_tensor, dataformats)


def _text(text_string: Any, *_: Any, **__: Any) -> Any:
    return own_value("text", text_string)


def _histogram(values: Any, *_: Any, **__: Any) -> Any:
    try:
        return histogram(values)
    except ConfigError as error:  # TensorBoard reports the error itself
        return Unreadable(str(error))


MEDIA_METHODS: Mapping[str, Callable[..., Any]] = {
    "add_image": _image,
    "add_images": _images,
    "add_text": _text,
    "add_histogram": _histogram,
}
"""Methods of TensorBoard's writer, and what is read of their arguments after the tag.

`add_figure` calls `add_image` with the drawn figure.
"""


def _log(usual: Any, source: str, take: TakeScalars) -> Any:
    """Of `wandb.Run.log(data, step, …)` and `Trainer.log(logs, start_time)`."""

    def log(owner: Any, *arguments: Any, **named: Any) -> Any:
        values = arguments[0] if arguments else named.get("data", named.get("logs"))
        if isinstance(values, Mapping):
            take(source, values)
        return usual(owner, *arguments, **named)

    return log


def scalars_in(values: Any, prefix: str = "") -> dict[str, Any]:
    """Numbers, tensors of one element and media in a dict, also in dicts inside of it.

    >>> scalars_in({"loss": 0.5, "eval": {"accuracy": 1}, "picture": [1, 2]})
    {'loss': 0.5, 'eval/accuracy': 1}
    """
    scalars: dict[str, Any] = {}
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if isinstance(value, Mapping):
            scalars |= scalars_in(value, f"{prefix}{name}/")
        elif isinstance(value, bool | int | float | MediaValue | Unreadable):
            scalars[f"{prefix}{name}"] = value
        elif hasattr(value, "detach") and value.numel() == 1:
            scalars[f"{prefix}{name}"] = value  # on a device it is read later: nothing waits here
        elif hasattr(value, "item") and getattr(value, "size", None) == 1:
            scalars[f"{prefix}{name}"] = value.item()  # a number of NumPy, not a table of one cell
        if len(scalars) >= MOST_SCALARS:
            break
    return scalars
