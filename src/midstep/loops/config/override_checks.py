"""Check overrides before they are composed: aliases, short forms, legacy and misspelt keys.

Hydra would report most of these, too, but over several lines and without the nearest valid key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

SHORT_FORMS = {"trainer": "phase1.trainer"}
"""Short forms of the beginnings of keys."""
_CLOSE = 0.5
"""How alike a key must be to be suggested. The default of 0.6 is too strict for long keys."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names that a config tree knows."""

    options: Mapping[str, Collection[str]]
    """The options of each group."""
    keys: Collection[str]
    """Full keys of all values."""
    aliases: Mapping[str, Mapping[str, str]]
    """Second names of options, by group."""
    legacy: Mapping[str, str]
    """Keys of earlier trees and their names here."""


@dataclass(frozen=True, kw_only=True)
class CheckedOverride:
    """One override with its full key."""

    key: str
    """Full key, or the name of a group."""
    text: str
    """The text after the `=`, as it was written or with the alias replaced."""
    is_group: bool
    """Whether it chooses an option."""
    is_sweep: bool
    """Whether it gives several values."""

    def __str__(self) -> str:
        return f"{self.key}={self.text}"


def parse_overrides(texts: Iterable[str]) -> list[Override]:
    """Overrides as Hydra's own parser reads them.

    Raises:
        ConfigError: one is not of the form key=value, or adds or deletes a key.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import OverrideParseException

    parsed = []
    for text in texts:
        try:
            (override,) = OverridesParser.create().parse_overrides([text])
        except OverrideParseException as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise ConfigError(
                f"cannot read the override {text!r}: {reason}; write it as key=value"
            ) from error
        if override.type is not OverrideType.CHANGE or override.package is not None:
            raise ConfigError(
                f"{text!r} adds or deletes a key; a run has fixed keys, so write key=value, or "
                "group=option"
            )
        parsed.append(override)
    return parsed


def check_override(override: Override, names: Names) -> CheckedOverride:
    """The override with its full key; an unknown key or option is refused."""
    written = override.key_or_group
    key = _long_form(written)
    if renamed := _renamed(key, names.legacy, names.options):
        raise ConfigError(f"{written} is the name of an earlier version; use {renamed}")
    text = str(override.input_line).partition("=")[2]
    if key in names.options:
        text = ",".join(_option(key, each, names) for each in _values(override))
    elif key not in names.keys:
        raise ConfigError(_unknown(written, key, names))
    elif text == "":
        text = "''"
    return CheckedOverride(
        key=key, text=text, is_group=key in names.options, is_sweep=override.is_sweep_override()
    )


def _long_form(key: str) -> str:
    first, dot, rest = key.partition(".")
    return f"{SHORT_FORMS[first]}{dot}{rest}" if dot and first in SHORT_FORMS else key


def _renamed(key: str, legacy: Mapping[str, str], groups: Iterable[str]) -> str | None:
    """The new name of a legacy key, or of a key below one."""
    if key in legacy:
        new = legacy[key]
        return next((group for group in groups if group.replace("/", ".") == new), new)
    for old, new in legacy.items():
        if key.startswith(f"{old}."):
            return new + key.removeprefix(old)
    return None


def _values(override: Override) -> Sequence[str]:
    """The options that an override of a group names: one, or several in a sweep."""
    if override.is_sweep_override():
        return [str(each) for each in override.sweep_iterator()]
    value: Any = override.value()
    return [str(value)]


def _option(group: str, option: str, names: Names) -> str:
    option = names.aliases.get(group, {}).get(option, option)
    known = names.options[group]
    if option in known:
        return option
    nearest = get_close_matches(option, known, n=1, cutoff=_CLOSE)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise ConfigError(
        f"unknown option {group}={option}; {hint}the options are {', '.join(sorted(known))}"
    )


def _unknown(written: str, key: str, names: Names) -> str:
    dotted = key.replace("/", ".")
    group = next((group for group in names.options if group.replace("/", ".") == dotted), None)
    if group is not None:
        return f"{written} is a group of settings; choose an option of it with {group}=OPTION"
    known = [*names.keys, *names.options]
    nearest = get_close_matches(key, known, n=1, cutoff=_CLOSE) or _same_last_part(key, known)
    hint = f"did you mean {nearest[0]}?" if nearest else "`--cfg job` prints all of them"
    return f"there is no setting {written}; {hint}"


def _same_last_part(key: str, known: Iterable[str]) -> list[str]:
    """Keys that end as this one does: `model.latent_dim` means `phase1.latent_space.latent_dim`."""
    last = key.replace("/", ".").rpartition(".")[2]
    return [each for each in known if each.replace("/", ".").rpartition(".")[2] == last][:1]
