"""A run's settings as one flat table: dotted names, plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from midstep.core import strict_json

__all__ = ["Setting", "flat_config"]

Setting = float | int | str | bool | None
MOST_KEYS = 200
MOST_CHARACTERS = 500


def flat_config(config: Any) -> dict[str, Setting]:
    """Nested settings with dotted names; lists as JSON, long texts cut, at most 200 of them.

    >>> flat_config({"model": {"hidden": 64, "sizes": [1, 2]}, "lr": 0.1})
    {'model.hidden': 64, 'model.sizes': '[1,2]', 'lr': 0.1}
    """
    found: dict[str, Setting] = {}
    for name, value in _leaves("", config if isinstance(config, Mapping) else {}):
        if len(found) >= MOST_KEYS:
            break
        found[name] = value
    return found


def _leaves(prefix: str, config: Mapping[str, Any]) -> Iterator[tuple[str, Setting]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from _leaves(f"{name}.", value)
        elif value is None or isinstance(value, bool | int | float):
            yield name, value
        else:
            text = value if isinstance(value, str) else strict_json.dumps(value)
            yield name, text[:MOST_CHARACTERS]
