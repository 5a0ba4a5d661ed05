"""Settings of a script: from argparse, tyro and Hydra, or in a variable such as `config`."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from types import ModuleType
from typing import Any

from midstep.live.script.patches.function_patches import Patches

TakeSettings = Callable[[Any], object]
_VARIABLE = re.compile(
    r"(.*[._])?(config|cfg|conf|args|opts?|hparams|hps|flags|settings|hyper_?param(eter)?s)\d?$",
    re.IGNORECASE,
)
_OF_TRAINING_PARTS = ("state_dict", "parameters", "__next__")
"""The class of an optimizer, a scheduler, a module or an iterator has one of these; attributes of
such an object are no settings, even if the variable is called `opt` or `config.model`."""
MOST_DEPTH = 4
MOST_SETTINGS = 256
LONGEST_TEXT = 500


class ScriptSettings:
    """All settings that were seen so far, as plain values."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add(self, given: Any) -> None:
        """Add a mapping, or an object with settings as attributes, such as a Namespace."""
        if isinstance(plain := plain_settings(given), dict):
            self.values.update(plain)

    def add_variables(self, variables: Sequence[tuple[str, Any]]) -> None:
        """Add those in variables with the usual names; what is known already stays.

        Also constants of the script, written in capitals.
        """
        for name, value in variables:
            if isinstance(value, bool | int | float | str):
                if name.isupper() and len(name) > 1:
                    self.values.setdefault(name, _plain(value, 0))
            elif _VARIABLE.match(name) and isinstance(plain := plain_settings(value), dict):
                self.values = plain | self.values


def plain_settings(given: Any, depth: int = 0) -> Any:
    """Numbers, text, lists and dicts of what `given` holds; None if it holds no settings.

    >>> import argparse
    >>> plain_settings(argparse.Namespace(lr=0.1, api_key="x", path=PurePath("a"), model=object()))
    {'lr': 0.1, 'api_key': '***', 'path': 'a'}
    """
    if _is_omegaconf(given):
        from omegaconf import OmegaConf

        given = OmegaConf.to_container(given, resolve=False)
    is_mapping = isinstance(given, Mapping)
    fields = given if is_mapping else getattr(given, "__dict__", None)
    if not isinstance(fields, Mapping) or depth > MOST_DEPTH:
        return None
    if not is_mapping and _is_training_part(type(given)):
        return None
    settings: dict[str, Any] = {}
    for name, value in list(fields.items())[:MOST_SETTINGS]:
        if not isinstance(name, str | int) or str(name).startswith("_"):
            continue
        plain = "***" if _is_secret(str(name), value) else _plain(value, depth)
        if plain is not None:
            settings[str(name)] = plain
    return settings or None


def _is_training_part(kind: type) -> bool:
    """By the class: an option of the user's may be called `state_dict`, too."""
    is_loader = any(each.__module__ == "torch.utils.data.dataloader" for each in kind.__mro__)
    return is_loader or any(hasattr(kind, name) for name in _OF_TRAINING_PARTS)


def _is_omegaconf(value: Any) -> bool:
    return type(value).__module__.startswith("omegaconf.")


def _is_secret(name: str, value: Any) -> bool:
    from midstep.core.files.masked_text import names_a_secret

    return isinstance(value, str) and names_a_secret(name)


def _plain(value: Any, depth: int) -> Any:
    """`value` for the record of the run; None if it is not a setting."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, str | PurePath):
        return str(value)[:LONGEST_TEXT]
    if type(value).__module__ == "torch":  # a device, a dtype
        return str(value) if not hasattr(value, "detach") else None
    if isinstance(value, list | tuple) and len(value) <= MOST_SETTINGS:
        items = [_plain(item, depth + 1) for item in value]
        return None if None in items else items
    if callable(value) or isinstance(value, ModuleType):
        return None
    return plain_settings(value, depth + 1)


# -- where libraries give them to the script ------------------------------------------------------


def _from_argparse(patches: Patches, module: ModuleType, take: TakeSettings) -> None:
    def wrap(usual: Any) -> Any:
        def parse_known_args(parser: Any, *arguments: Any, **named: Any) -> Any:
            parsed = usual(parser, *arguments, **named)
            take(parsed[0])
            return parsed

        return parse_known_args

    # `parse_args` calls it too.
    patches.replace(module.ArgumentParser, "parse_known_args", wrap)


def _from_tyro(patches: Patches, module: ModuleType, take: TakeSettings) -> None:
    def wrap(usual: Any) -> Any:
        def cli(*arguments: Any, **named: Any) -> Any:
            settings = usual(*arguments, **named)
            take(settings)
            return settings

        return cli

    patches.replace(module, "cli", wrap)


def _from_hydra(patches: Patches, module: ModuleType, take: TakeSettings) -> None:
    def wrap(usual: Any) -> Any:
        def run_job(task_function: Any, config: Any, *arguments: Any, **named: Any) -> Any:
            settings = plain_settings(config) or {}
            settings.pop("hydra", None)
            take(settings)
            return usual(task_function, config, *arguments, **named)

        return run_job

    patches.replace(module, "run_job", wrap)


def _from_wandb(patches: Patches, module: ModuleType, take: TakeSettings) -> None:
    def wrap(usual: Any) -> Any:
        def init(*arguments: Any, **named: Any) -> Any:
            take(named.get("config"))
            return usual(*arguments, **named)

        return init

    patches.replace(module, "init", wrap)


SETTING_SOURCES: Mapping[str, Callable[[Patches, ModuleType, TakeSettings], None]] = {
    "argparse": _from_argparse,
    "tyro": _from_tyro,
    "hydra.core.utils": _from_hydra,
    "wandb": _from_wandb,
}
"""Modules that give settings to a script, each with how they are taken."""
