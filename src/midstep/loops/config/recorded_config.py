"""The settings that a run recorded in its folder `.hydra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.untrusted_files import read_plain
from midstep.loops.config.composed_config import ComposedConfig, as_composed


def read_recorded(run_dir: str | Path) -> ComposedConfig:
    """The settings of a composed run, to train it again or further.

    Raises:
        ConfigError: the run has none; it was not made by `midstep train`.
        FormatError: the file is damaged.
    """
    config = as_composed(_read(Path(run_dir), "config"))
    hydra = _read(Path(run_dir), "hydra").get("hydra", {})
    return replace(
        config,
        overrides=tuple(map(str, hydra.get("overrides", {}).get("task", ()))),
        choices=dict(hydra.get("runtime", {}).get("choices", {})),
    )


def _read(run_dir: Path, name: str) -> Mapping[str, Any]:
    import yaml

    path = run_dir / ".hydra" / f"{name}.yaml"
    try:
        content = yaml.safe_load(read_plain(path))
    except FileNotFoundError:
        raise ConfigError(
            f"{run_dir} has no .hydra/{name}.yaml, so it was not made by `midstep train`; "
            "continue it with the script that made it"
        ) from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise FormatError(f"{path} cannot be read: {reason}") from error
    if not isinstance(content, Mapping):
        raise FormatError(f"{path} holds no settings by name")
    return content
