"""The manifest of a checkpoint: step, settings and every hash; upgrades of older versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.version import __version__
from midstep.session.checkpoint import tagged_json
from midstep.session.checkpoint.hashes import describe_files, seal, unseal
from midstep.session.checkpoint.tensor_file import TensorWriter
from midstep.session.state.snapshot import Snapshot

VERSION = 1
"""The format version that is written."""
FORMAT = "midstep-checkpoint"
_PROGRESS = ("step", "epoch", "cursor", "timeline")
_TREES = ("config", "fingerprints")
_LATER_TREES = ("origin",)
"""Fields that the first checkpoints of this version do not have; empty for those."""
Change = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged(document: dict[str, Any]) -> dict[str, Any]:
    return document


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """Turns a checkpoint of one version into one of the next."""

    manifest: Change = _unchanged
    """Changes the fields of the manifest; `version` is raised without it."""
    state: Change = _unchanged
    """Changes the state, after tags are decoded and tensors are in it."""


UPGRADES: dict[int, Upgrade] = {}
"""Upgrades by the older version. A version without an entry is no longer read."""


def upgraded_manifest(document: dict[str, Any]) -> dict[str, Any]:
    """The manifest as the present version writes it; `written` is the version on disk.

    Raises:
        FormatError: this midstep does not read that version.
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
    """The state of a checkpoint of version `written`, as the present version has it.

    >>> upgraded_state({"model": {}}, VERSION)
    {'model': {}}
    """
    for version in range(written, VERSION):
        tree = UPGRADES[version].state(tree)
    return tree


def manifest_chunks(
    snapshot: Snapshot, state: bytes, tensors: TensorWriter, blocks: Mapping[str, Any]
) -> Iterator[bytes]:
    """The content of `manifest.json`; `blocks` describes the arrays that are stored in blocks.

    A generator, so that it runs when its turn to be written comes: the tensors are hashed while
    their file is written, just before.
    """
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "midstep": __version__}
    document |= {name: getattr(snapshot, name) for name in _PROGRESS}
    document |= {name: dict(getattr(snapshot, name)) for name in (*_TREES, *_LATER_TREES)}
    document["files"] = describe_files(state, tensors.header, tensors.bytes)
    document["tensors"] = tensors.entries
    if blocks:  # without large arrays, a checkpoint is as in versions that know no blocks
        document["blocks"] = dict(blocks)
    yield seal(tagged_json.dumps(document).encode())


def parse_manifest(data: bytes) -> dict[str, Any]:
    """The manifest in `data`, upgraded to the present version; its own hash is checked first."""
    document = strict_json.loads(unseal(data))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"it is not a manifest of a {FORMAT}")
    return upgraded_manifest(document)


def progress_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a snapshot that are stored in the manifest."""
    try:
        progress = {name: document[name] for name in _PROGRESS}
        if not all(type(number) is int for number in progress.values()):
            raise FormatError(f"step, epoch, cursor and timeline must be integers, got {progress}")
        trees = {name: document[name] for name in _TREES}
        trees |= {name: document.get(name, {}) for name in _LATER_TREES}
        return progress | {name: tagged_json.decode(tree) for name, tree in trees.items()}
    except KeyError as error:
        raise FormatError(f"it has no field {error.args[0]!r}") from None
