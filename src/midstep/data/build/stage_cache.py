"""Finished stages of a build on disk, so that an interrupted build continues and does not restart.

Each stage is a folder that appears complete or not at all. Its fingerprint covers the settings it
depends on and the stages before it, so a stage that was computed from other input is computed
again.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files import storage
from midstep.core.files.atomic_folders import check_free, new_folder, remove_temporary_folders
from midstep.data.steering.storage.file_hashes import save_array

FORMAT = 1
"""Version of the files of a stage; stages of another version are computed again."""
STAGE_NAME = "stage.json"

StageData = dict[str, Any]
"""The result of a stage: arrays (.npy), lists of texts and plain objects (.json)."""


@dataclass(frozen=True, kw_only=True)
class BuildProgress:
    """How far a stage of a build is."""

    stage: str
    """Name of the stage."""
    done: int
    """How much of `total` is done; equal to it when the stage is finished."""
    total: int
    reused: bool = False
    """Whether an earlier attempt finished the stage."""


ReportProgress = Callable[[BuildProgress], None]


def fingerprint(*parts: Any) -> str:
    """A digest of plain values.

    >>> fingerprint("a", {"b": 1}) == fingerprint("a", {"b": 2})
    False
    """
    return hashlib.sha256(strict_json.dumps(strict_json.plain(list(parts))).encode()).hexdigest()


class StageCache:
    """The work folder of one build. `open` locks it against other processes.

    Args:
        folder: keeps the stages.
        progress: called with every progress.
    """

    def __init__(self, folder: Path, progress: ReportProgress | None = None) -> None:
        self.folder, self._report_progress = folder, progress
        self.fingerprints: dict[str, str] = {}
        self.seconds: dict[str, float] = {}

    @classmethod
    @contextmanager
    def open(
        cls, folder: Path, progress: ReportProgress | None, *, result: Path
    ) -> Iterator[StageCache]:
        """Create and lock the folder; it is removed when the block ends without an error.

        Args:
            folder: keeps the stages.
            progress: called with every progress.
            result: the folder of the finished dataset; must not exist yet.
        """
        check_free(result)
        storage.make_folder(folder)
        with (folder / "lock").open("a") as lock:
            _lock(lock, folder)
            remove_temporary_folders(folder)
            try:
                yield cls(folder, progress)
            except BaseException:
                if [path.name for path in folder.iterdir()] == ["lock"]:
                    _remove(folder)  # no stage was finished, so there is nothing to continue
                raise
            _remove(folder)

    def report(self, stage: str, done: int, total: int, *, reused: bool = False) -> None:
        """Report how far a stage is."""
        if self._report_progress is not None:
            self._report_progress(BuildProgress(stage=stage, done=done, total=total, reused=reused))

    def stage(
        self,
        name: str,
        settings: Mapping[str, Any],
        after: str | None,
        compute: Callable[..., StageData],
        *arguments: Any,
    ) -> StageData:
        """The result of a stage: read if it is finished and nothing changed, else computed.

        Args:
            name: name of the stage.
            settings: what its result depends on, besides the stage before it.
            after: name of the stage before it.
            compute: computes it.
            *arguments: arguments of `compute`.
        """
        # The fingerprint of the stage before covers all stages before that one.
        before = {} if after is None else {after: self.fingerprints[after]}
        wanted = self.fingerprints[name] = fingerprint(FORMAT, name, settings, before)
        folder = self.folder / name
        known = _stage_file(folder)
        if known.get("fingerprint") == wanted:
            self.seconds[name] = float(known["seconds"])
            self.report(name, 1, 1, reused=True)
        else:
            self.report(name, 0, 1)
            begun = time.monotonic()
            data = compute(*arguments)
            self.seconds[name] = time.monotonic() - begun
            _remove(folder)
            _write_stage(folder, data, wanted, self.seconds[name])
            _remove(self._parts_folder(name))
            self.report(name, 1, 1)
        # Read also what was just computed: a continued build must get the same types as a build
        # without interruption.
        return _read_stage(folder)

    def part(self, stage: str, name: str, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """An intermediate array of a stage, kept until the stage is finished."""
        folder = self._parts_folder(stage)
        fingerprint = self.fingerprints[stage]
        if _stage_file(folder).get("fingerprint") != fingerprint:
            _remove(folder)
            storage.make_folder(folder)
            storage.replace_json(folder / STAGE_NAME, {"fingerprint": fingerprint})
        path = folder / f"{name}.npy"
        if not path.is_file():
            save_array(path, compute())
        return _load_array(path)

    def _parts_folder(self, stage: str) -> Path:
        return self.folder / f"{stage}.parts"

    @contextmanager
    def result(self, target: Path) -> Iterator[Path]:
        """A folder to create and fill; it is renamed to `target` when the block ends well."""
        folder = self.folder / "result"
        _remove(folder)  # left by an attempt that was interrupted here
        yield folder
        storage.sync_folder(folder)
        check_free(target)
        with storage.storage_errors(target, "write"):
            folder.rename(target)
        storage.sync_folder(target.parent)


def _lock(lock: IO[str], folder: Path) -> None:
    """Lock the work folder. The kernel releases the lock when the process ends, however it ends."""
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StorageError(
            f"another build works in {folder}; wait until it ends, or choose another folder"
        ) from error


def _stage_file(folder: Path) -> dict[str, Any]:
    """The content of stage.json; empty if it is missing or damaged."""
    try:
        content = strict_json.loads((folder / STAGE_NAME).read_bytes())
    except (OSError, FormatError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_stage(folder: Path, data: StageData, fingerprint: str, seconds: float) -> None:
    kinds = {}
    with new_folder(folder) as temporary:
        for name, value in data.items():
            if isinstance(value, np.ndarray):
                kinds[name] = "array"
                save_array(temporary / f"{name}.npy", value)
            else:
                kinds[name] = "json"
                storage.replace_json(temporary / f"{name}.json", value)
        summary = {"fingerprint": fingerprint, "seconds": seconds, "pieces": kinds}
        storage.replace_json(temporary / STAGE_NAME, summary)


def _read_stage(folder: Path) -> StageData:
    kinds = _stage_file(folder)["pieces"]
    return {
        name: _load_array(folder / f"{name}.npy")
        if kind == "array"
        else strict_json.loads((folder / f"{name}.json").read_bytes())
        for name, kind in kinds.items()
    }


def _load_array(path: Path) -> NDArray[Any]:
    array: NDArray[Any] = np.load(path, allow_pickle=False)
    return array


def _remove(folder: Path) -> None:
    if folder.is_dir():
        with storage.storage_errors(folder, "remove"):
            shutil.rmtree(folder)
