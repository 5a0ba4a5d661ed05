"""Reads the settings that a composed run left in `.hydra/`: its config and its overrides.

These files may come from a stranger: tags that build objects, aliases that grow without end, and
interpolations that read the environment are refused. No interpolation is ever resolved.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from midstep.core.errors import FormatError, MissingExtraError
from midstep.core.files.untrusted_files import read_plain

LARGEST_YAML_BYTES = 1 << 20
# `env`, and the resolvers of omegaconf that read the environment or decode what was read.
_READS_ENVIRONMENT = re.compile(r"\$\{\s*(?:oc\.)?(?:env|decode)\b")
_OVERRIDE = re.compile(r"(?:\+{0,2}|~)(?P<key>[^=\s~+][^=\s]*)(?:=(?P<value>.*))?", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class HydraFiles:
    """What `.hydra/` says of a run; both empty if the run was not composed."""

    config: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The overrides by key, as they were typed."""


def read_hydra_files(run_dir: Path) -> HydraFiles:
    """The config and the overrides of a run.

    Raises:
        FormatError: a file is not plain YAML, or reads the environment.
    """
    config = _read_yaml(run_dir / ".hydra" / "config.yaml")
    overrides = _read_yaml(run_dir / ".hydra" / "overrides.yaml")
    if not isinstance(config, Mapping | None):
        raise FormatError(f"{run_dir}/.hydra/config.yaml is not a mapping of settings")
    if not isinstance(overrides, list | None) or not all(
        isinstance(each, str) for each in overrides or ()
    ):
        raise FormatError(f"{run_dir}/.hydra/overrides.yaml is not a list of key=value")
    return HydraFiles(config=config or {}, overrides=split_overrides(overrides or []))


def split_overrides(overrides: list[str]) -> dict[str, str]:
    """Overrides by key; a key that was deleted has an empty value.

    >>> split_overrides(["loop=ae", "+phase1.trainer.seed=1", "~data.path"])
    {'loop': 'ae', 'phase1.trainer.seed': '1', 'data.path': ''}
    """
    matches = (_OVERRIDE.fullmatch(text.strip()) for text in overrides)
    return {match["key"]: match["value"] or "" for match in matches if match is not None}


def _read_yaml(path: Path) -> Any:
    try:
        text = read_plain(path, LARGEST_YAML_BYTES, below=1).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    return load_plain_yaml(text, path)


def load_plain_yaml(text: str, path: Path) -> Any:
    """YAML of plain values only.

    Raises:
        FormatError: with the name of the file.

    >>> load_plain_yaml("lr: 0.1", Path("config.yaml"))
    {'lr': 0.1}
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError.for_library("pyyaml", "runs") from None
    try:
        _refuse_references(yaml, text, path)
        return yaml.safe_load(text)  # builds no Python objects from tags
    except FormatError:
        raise
    # ValueError: PyYAML does not catch that of a date such as 2024-13-45, or of a long number.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not plain YAML: {' '.join(str(error).split())}") from None


def _refuse_references(yaml: Any, text: str, path: Path) -> None:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise FormatError(f"{path} has YAML aliases; settings are written out in full")
        if _READS_ENVIRONMENT.search(getattr(event, "value", "")):
            raise FormatError(f"{path} reads the environment ({event.value}); it is refused")
