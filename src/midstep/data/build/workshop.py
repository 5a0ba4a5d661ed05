"""Where a build keeps its finished stages, so that an interrupted one goes on and does not begin.

Each stage is a folder that appears whole or not at all. Its fingerprint covers the settings it
depends on and the stages before it: what was made from other input is made again, never mixed in.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from midstep.core import storage, strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.folders import new_folder, remove_temporary_folders

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Pieces", "Progress", "Tell", "Workshop", "fingerprint_of"]

FORMAT = 1
"""Of what stages write; another one makes them anew."""
STAGE_NAME = "stage.json"

Pieces = dict[str, Any]
"""What a stage makes: arrays (.npy), lists of texts and plain objects (.json)."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a build stands."""

    stage: str
    """Its name."""
    done: int
    """Of `total`; equal when the stage is finished."""
    total: int
    reused: bool = False
    """Whether it was finished by an earlier attempt."""


Tell = Callable[[Progress], None]


def fingerprint_of(*parts: Any) -> str:
    """A digest of plain values.

    >>> fingerprint_of("a", {"b": 1}) == fingerprint_of("a", {"b": 2})
    False
    """
    return hashlib.sha256(strict_json.dumps(strict_json.plain(list(parts))).encode()).hexdigest()


class Workshop:
    """The folder of one build; `open` it, and no other process can.

    Args:
        folder: where stages are kept.
        tell: called with every bit of progress.
    """

    def __init__(self, folder: Path, tell: Tell | None = None) -> None:
        self.folder, self._tell = folder, tell
        self.fingerprints: dict[str, str] = {}
        self.seconds: dict[str, float] = {}

    @classmethod
    @contextmanager
    def open(cls, folder: Path, tell: Tell | None, *, result: Path) -> Iterator[Workshop]:
        """Hold the folder, made if need be; it goes when the block ends well.

        Args:
            folder: where stages are kept.
            tell: called with every bit of progress.
            result: what the build is for; must not exist yet.
        """
        _check_free(result)
        storage.make_folder(folder)
        with (folder / "lock").open("a") as lock:
            _hold(lock, folder)
            remove_temporary_folders(folder)
            try:
                yield cls(folder, tell)
            except BaseException:
                if [path.name for path in folder.iterdir()] == ["lock"]:
                    _remove(folder)  # nothing was finished: nothing to go on with
                raise
            _remove(folder)

    def tell(self, stage: str, done: int, total: int, *, reused: bool = False) -> None:
        """Say how far a stage is."""
        if self._tell is not None:
            self._tell(Progress(stage=stage, done=done, total=total, reused=reused))

    def stage(
        self,
        name: str,
        settings: Mapping[str, Any],
        after: Sequence[str],
        make: Callable[[], Pieces],
    ) -> Pieces:
        """What the stage made: read if it is finished and nothing changed, else made now.

        Args:
            name: of the stage.
            settings: all that its result depends on, besides the stages before it.
            after: names of these.
            make: does the work.
        """
        told = {each: self.fingerprints[each] for each in after}
        wanted = self.fingerprints[name] = fingerprint_of(FORMAT, name, settings, told)
        folder = self.folder / name
        known = _stage_file(folder)
        if known.get("fingerprint") == wanted:
            self.seconds[name] = float(known["seconds"])
            self.tell(name, 1, 1, reused=True)
        else:
            self.tell(name, 0, 1)
            begun = time.monotonic()
            made = make()
            self.seconds[name] = time.monotonic() - begun
            _remove(folder)
            _write_stage(folder, made, wanted, self.seconds[name])
            _remove(self._parts_folder(name))
            self.tell(name, 1, 1)
        return _read_stage(folder)

    def part(self, stage: str, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """An array that a stage makes on its way, kept until the stage is finished."""
        folder = self._parts_folder(stage)
        note = folder / STAGE_NAME
        if _stage_file(folder).get("fingerprint") != self.fingerprints[stage]:
            _remove(folder)
            storage.make_folder(folder)
            storage.replace_json(note, {"fingerprint": self.fingerprints[stage]})
        path = folder / f"{name}.npy"
        if not path.is_file():
            made = make()
            with storage.replacement(path) as file:
                np.save(file, made, allow_pickle=False)
        return _loaded(path)

    def _parts_folder(self, stage: str) -> Path:
        return self.folder / f"{stage}.parts"

    @contextmanager
    def result(self, target: Path) -> Iterator[Path]:
        """A folder to make and fill, which has the name `target` when the block ends well."""
        folder = self.folder / "result"
        _remove(folder)  # left by an attempt that was interrupted here
        yield folder
        storage.sync_folder(folder)
        _check_free(target)
        try:
            folder.rename(target)
        except OSError as error:
            raise storage.storage_error(target, "write", error) from error
        storage.sync_folder(target.parent)


def _check_free(target: Path) -> None:
    if os.path.lexists(target):
        raise StorageError(
            f"cannot write {target}: there is something of that name already; "
            "choose another name, or remove it first"
        )


def _hold(lock: IO[str], folder: Path) -> None:
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StorageError(
            f"another build works in {folder}; wait for it to end, or choose another folder"
        ) from error


def _stage_file(folder: Path) -> dict[str, Any]:
    """What a finished stage says of itself; nothing if there is none, or it is damaged."""
    try:
        found = strict_json.loads((folder / STAGE_NAME).read_bytes())
    except (OSError, FormatError):
        return {}
    return found if isinstance(found, dict) else {}


def _write_stage(folder: Path, pieces: Pieces, fingerprint: str, seconds: float) -> None:
    kinds = {}
    with new_folder(folder) as temporary:
        for name, value in pieces.items():
            kinds[name] = "array" if isinstance(value, np.ndarray) else "json"
            if kinds[name] == "array":
                with storage.replacement(temporary / f"{name}.npy") as file:
                    np.save(file, value, allow_pickle=False)
            else:
                storage.replace_json(temporary / f"{name}.json", value)
        note = {"fingerprint": fingerprint, "seconds": seconds, "pieces": kinds}
        storage.replace_json(temporary / STAGE_NAME, note)


def _read_stage(folder: Path) -> Pieces:
    kinds = _stage_file(folder)["pieces"]
    return {
        name: _loaded(folder / f"{name}.npy")
        if kind == "array"
        else strict_json.loads((folder / f"{name}.json").read_bytes())
        for name, kind in kinds.items()
    }


def _loaded(path: Path) -> NDArray[Any]:
    found: NDArray[Any] = np.load(path, allow_pickle=False)
    return found


def _remove(folder: Path) -> None:
    if folder.is_dir():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise storage.storage_error(folder, "remove", error) from error
