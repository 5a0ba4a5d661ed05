"""Checkpoints of older format versions, brought up to the present one version by version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from midstep.core.errors import FormatError
from midstep.core.version import __version__

__all__ = ["UPGRADES", "VERSION", "Upgrade", "upgraded_manifest", "upgraded_state"]

VERSION = 1
"""The format version that is written."""
Change = Callable[[dict[str, Any]], dict[str, Any]]


def _as_it_is(document: dict[str, Any]) -> dict[str, Any]:
    return document


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """What makes a checkpoint of one version one of the next."""

    manifest: Change = _as_it_is
    """Of the fields of the manifest; its `version` is raised by itself."""
    state: Change = _as_it_is
    """Of `state.json`, once its tags are read and the tensors stand in their places."""


UPGRADES: dict[int, Upgrade] = {}
"""By the older version; a version that is left out here is no longer read."""


def upgraded_manifest(document: dict[str, Any]) -> dict[str, Any]:
    """The manifest as the present version writes it, `written` being the version it has on disk.

    Raises:
        FormatError: nothing here reads that version.
    """
    written = document.get("version")
    if type(written) is not int or (written != VERSION and written not in UPGRADES):
        known = ", ".join(str(known) for known in sorted({*UPGRADES, VERSION}))
        raise FormatError(
            f"format version {written!r}, written by midstep {document.get('midstep')}, is not "
            f"known; midstep {__version__} reads {known}. Load it with the midstep that wrote it"
        )
    for version in range(written, VERSION):
        document = {**UPGRADES[version].manifest(document), "version": version + 1}
    return {**document, "written": written}


def upgraded_state(tree: Any, written: int) -> Any:
    """The state of a checkpoint that was written in an older version.

    >>> upgraded_state({"model": {}}, VERSION)
    {'model': {}}
    """
    for version in range(written, VERSION):
        tree = UPGRADES[version].state(tree)
    return tree
