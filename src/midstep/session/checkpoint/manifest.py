"""The manifest of a checkpoint: what it holds, and a hash for every byte of it.

Each tensor, the header of their file and the state document have a hash; the manifest ends with
the hash of itself. So one number stands for the whole, and any changed bit shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.version import __version__
from midstep.session.checkpoint import tagged_json
from midstep.session.checkpoint.checkpoint_folders import STATE, TENSORS
from midstep.session.checkpoint.tensor_file import TensorWriter, digest
from midstep.session.state.snapshot import Snapshot

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


FORMAT = "midstep-checkpoint"
_END = re.compile(rb',"whole":"([0-9a-f]{64})"}\n', flags=re.ASCII)
_END_BYTES = len(',"whole":""}\n') + 64
_PROGRESS = ("step", "epoch", "cursor", "timeline")
_TREES = ("config", "fingerprints")


def manifest_bytes(snapshot: Snapshot, state: bytes, tensors: TensorWriter) -> bytes:
    """The manifest of a checkpoint whose other files are written."""
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, "midstep": __version__}
    document |= {name: getattr(snapshot, name) for name in _PROGRESS}
    document |= {name: dict(getattr(snapshot, name)) for name in _TREES}
    document["files"] = {
        STATE: {"bytes": len(state), "blake2b": digest(state)},
        TENSORS: {"bytes": tensors.bytes, "header_blake2b": digest(tensors.header)},
    }
    document["tensors"] = {name: entry.describe() for name, entry in tensors.entries.items()}
    body = tagged_json.dumps(document).encode()[:-1]
    return body + f',"whole":"{digest(body)}"}}\n'.encode()


def later(make: Callable[[], bytes]) -> Iterator[bytes]:
    """The content of a file that can only be made once those before it are written."""
    yield make()


def parse_manifest(data: bytes) -> dict[str, Any]:
    """The manifest behind `data`, brought to the present version; its own hash is checked first."""
    body, end = data[:-_END_BYTES], _END.fullmatch(data[-_END_BYTES:])
    if end is None or digest(body) != end[1].decode():
        raise FormatError("it does not match its own hash")
    document = strict_json.loads(body + b"}")
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"it is not a manifest of a {FORMAT}")
    return upgraded_manifest(document)


def progress_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a snapshot that stand in the manifest."""
    try:
        made = {name: document[name] for name in _PROGRESS}
        if not all(type(number) is int for number in made.values()):
            raise FormatError(f"step, epoch, cursor and timeline must be whole numbers: {made}")
        return made | {name: tagged_json.decode(document[name]) for name in _TREES}
    except KeyError as error:
        raise FormatError(f"it has no field {error.args[0]!r}") from None
