"""The settings that a run recorded in its folder `.hydra`.

The run may come from a stranger. So the files are read as plain YAML, in which nothing refers to a
variable of the environment: the settings are resolved, and a new run records them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.untrusted_files import read_plain
from midstep.facts.index.hydra_files import LARGEST_YAML_BYTES, load_plain_yaml
from midstep.loops.config.composed_config import ComposedConfig, resolve_values


def read_recorded(run_dir: str | Path) -> ComposedConfig:
    """The settings of a composed run, to train it again or further.

    Raises:
        ConfigError: the run has none; it was not made by `midstep train`.
        FormatError: the file is damaged.
    """
    config = resolve_values(_read(Path(run_dir), "config"))
    hydra = _read(Path(run_dir), "hydra")
    try:
        overrides = hydra["hydra"]["overrides"]["task"]
        choices = hydra["hydra"]["runtime"]["choices"]
        return replace(config, overrides=tuple(map(str, overrides)), choices=dict(choices))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{run_dir}/.hydra/hydra.yaml lacks the overrides and choices of the run; restore the "
            "file, or train again with midstep train"
        ) from error


def _read(run_dir: Path, name: str) -> Mapping[str, Any]:
    path = run_dir / ".hydra" / f"{name}.yaml"
    try:
        text = read_plain(path, LARGEST_YAML_BYTES, below=1).decode()
    except FileNotFoundError:
        raise ConfigError(
            f"{run_dir} has no .hydra/{name}.yaml, so it was not made by `midstep train`; "
            "continue it with the script that made it"
        ) from None
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from error
    content = load_plain_yaml(text, path)
    if not isinstance(content, Mapping):
        raise FormatError(f"{path} is not a mapping of settings")
    return content
