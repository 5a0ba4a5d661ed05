"""The settings of a run for its header: what the user gave, and those of the optimizers."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.core.files.masked_text import MASK, names_a_secret
from midstep.session.engine.recorded_steps import NUMERIC_SETTINGS

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts

MOST_TEXT = 2000
"""Characters of one value that are kept."""
TOO_DEEP = "…"
"""In place of settings that are nested more deeply than is recorded."""


def header_config(parts: TrainingParts, config: Any) -> dict[str, Any]:
    """Settings for the header: filters such as `config.lr=0.001` read them.

    The optimizer's settings come first, then the user's own, then the classes and sizes that
    midstep reads itself. A setting of the user's with a name that midstep uses is under `given`.
    """
    own = {name: value for name, value in parts.describe().items() if value is not None}
    own["optimizers"] = parts.describe_optimizers()
    user = as_settings(config)
    # A resume compares the numeric settings of the header with those that midstep knows.
    hidden = {
        name: user.pop(name)
        for name in [*user]
        if name in NUMERIC_SETTINGS or own.get(name, user[name]) != user[name]
    }
    given = {"given": hidden} if hidden else {}
    return {**_optimizer_settings(parts), **user, **own, **given}


def _optimizer_settings(parts: TrainingParts) -> dict[str, Any]:
    group = parts.optimizer.param_groups[0]
    names = parts.optimizer.defaults.keys() & group.keys()
    plain = {name: _plain(name, group[name]) for name in sorted(names)}
    return {name: value for name, value in plain.items() if value is not None}


def as_settings(config: Any) -> dict[str, Any]:
    """The settings of a dict, Namespace, dataclass or OmegaConf config as plain values.

    >>> from argparse import Namespace
    >>> as_settings(Namespace(lr=0.1, layers=(2, 3), api_key="abc"))
    {'lr': 0.1, 'layers': [2, 3], 'api_key': '***'}
    """
    if config is None:
        return {}
    settings: Any
    if _is_omegaconf(config):
        from omegaconf import OmegaConf

        settings = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    else:
        settings = _members(config)
        if settings is None:
            settings = getattr(config, "__dict__", None)
    if not isinstance(settings, Mapping) or isinstance(config, type):
        raise ConfigError(
            f"config is a {type(config).__name__}; give a dict, an argparse Namespace, a dataclass "
            "or an OmegaConf config"
        )
    return {str(name): _plain(str(name), value) for name, value in settings.items()}


def _is_omegaconf(config: Any) -> bool:
    return type(config).__module__.startswith("omegaconf.")


def _members(value: Any) -> Mapping[Any, Any] | None:
    """What a mapping, a dataclass or a Namespace holds, by name; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        # Not `asdict`, which copies every value: a config may hold a model or a lock.
        return {each.name: getattr(value, each.name, None) for each in fields(value)}
    return vars(value) if isinstance(value, Namespace | SimpleNamespace) else None


def _plain(name: str, value: Any, depth: int = 6) -> Any:
    """A value that JSON holds; text for anything else. Secrets are masked, as in `argv`."""
    if isinstance(value, str) and names_a_secret(name):
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    members = _members(value)
    if members is not None or isinstance(value, list | tuple | set | frozenset):
        if not depth:
            return TOO_DEEP  # not `str(value)`, which would show the secrets inside
        if members is None:
            return [_plain(name, each, depth - 1) for each in value]
        return {str(key): _plain(str(key), each, depth - 1) for key, each in members.items()}
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0 and _is_in_host_memory(value):
        value = value.item()
    return value if isinstance(value, bool | int | float) else str(value)[:MOST_TEXT]


def _is_in_host_memory(scalar: Any) -> bool:
    """Whether reading a NumPy scalar or a tensor waits for no device."""
    return str(getattr(scalar, "device", None)) in ("cpu", "None")
