"""The settings of a run for its header: what the user gave, and those of the optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.session.engine.recorded_steps import NUMERIC_SETTINGS
from midstep.session.run_header import MASK, names_a_secret

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts

MOST_TEXT = 2000
"""Characters of one value that are kept."""


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
    if isinstance(config, Mapping) and not _is_omegaconf(config):
        settings: Any = dict(config)
    elif is_dataclass(config) and not isinstance(config, type):
        settings = asdict(config)
    elif _is_omegaconf(config):
        from omegaconf import OmegaConf

        settings = OmegaConf.to_container(config, resolve=True, throw_on_missing=False)
    else:
        settings = getattr(config, "__dict__", None)
    if not isinstance(settings, Mapping) or isinstance(config, type):
        raise ConfigError(
            f"config is a {type(config).__name__}; give a dict, an argparse Namespace, a dataclass "
            "or an OmegaConf config"
        )
    return {str(name): _plain(str(name), value) for name, value in settings.items()}


def _is_omegaconf(config: Any) -> bool:
    return type(config).__module__.startswith("omegaconf.")


def _plain(name: str, value: Any, depth: int = 6) -> Any:
    """A value that JSON holds; text for anything else. Secrets are masked, as in `argv`."""
    if isinstance(value, str) and names_a_secret(name):
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping) and depth:
        return {str(key): _plain(str(key), each, depth - 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_plain(name, each, depth - 1) for each in value]
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item() if getattr(value, "device", "cpu") in ("cpu", None) else str(value)
    return str(value)[:MOST_TEXT]
