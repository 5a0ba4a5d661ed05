"""Stored influence results, found by listing; nothing a caller sends is ever joined to a path."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.influence.study.results_file import FORMAT
from midstep.server.problems import Refusal, not_found
from midstep.server.runs.run_table import RunTable

if TYPE_CHECKING:
    import numpy as np


MOST_RESULTS = 500
MOST_BYTES = 64 << 20
"""Longest results.json that is read, and most bytes of them that are kept parsed."""
_RESULTS, _PLAN = "results.json", "plan.json"


@dataclass(frozen=True, kw_only=True)
class StoredInfluence:
    """One folder under `influence/`."""

    id: str
    """What the page calls it: the folder's name."""
    folder: Path
    made_at: float
    """When it was finished, or begun; seconds since 1970."""
    finished: bool
    stamp: tuple[int, int, int]
    """Of its results.json: inode, time, length; another stamp is another content."""

    def open(self, *parts: str) -> AbstractContextManager[BinaryIO]:
        """A plain file inside, by names that this server listed itself; no link is followed."""
        return open_plain(self.folder, *parts)

    def request_folder(self, index: int) -> str:
        """The folder's name of a request, which begins with its number."""
        try:
            names = sorted(one.name for one in (self.folder / "requests").iterdir())
        except OSError:
            names = []
        for name in names:
            if name.startswith(f"{index:03d}_") and not name.endswith(".batch"):
                return name
        raise not_found()


class InfluenceStore:
    """All results beside the runs of a server, and the last ones read.

    Args:
        runs: their folders say where results lie: `outputs/influence` beside `outputs/runs`.
    """

    def __init__(self, runs: RunTable) -> None:
        self._runs = runs
        self._read: OrderedDict[tuple[int, int, int], dict[str, Any]] = OrderedDict()
        self._summaries: OrderedDict[tuple[int, int, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def folders(self) -> list[Path]:
        """Where results are looked for."""
        return list(dict.fromkeys(_beside(folder) for folder in self._runs.folders()))

    def listing(self) -> list[StoredInfluence]:
        """All results, newest first; the same name in a second folder gets a number."""
        found: dict[str, StoredInfluence] = {}
        for root in self.folders():
            for each in _results_in(root):
                name, number = each.id, 1
                while name in found:
                    number += 1
                    name = f"{each.id}~{number}"
                found[name] = StoredInfluence(**{**vars(each), "id": name})
        return sorted(found.values(), key=lambda each: (-each.made_at, each.id))

    def get(self, result_id: str) -> StoredInfluence:
        """The finished result of this id; every other id gets the one 404."""
        for each in self.listing():
            if each.id == result_id and each.finished:
                return each
        raise not_found()

    def read(self, stored: StoredInfluence) -> dict[str, Any]:
        """Its results.json; 409 where it is damaged."""
        with self._lock:
            if stored.stamp in self._read:
                self._read.move_to_end(stored.stamp)
                return self._read[stored.stamp]
        told = _parse(stored)
        with self._lock:
            self._read[stored.stamp] = told
            while len(self._read) > 1 and sum(key[2] for key in self._read) > MOST_BYTES:
                self._read.popitem(last=False)
        return told

    def summary(self, stored: StoredInfluence) -> dict[str, Any]:
        """What a list says of it; read once for each content."""
        with self._lock:
            if stored.finished and stored.stamp in self._summaries:
                return self._summaries[stored.stamp]
        made = _summary(stored)
        with self._lock:
            self._summaries[stored.stamp] = made
            while len(self._summaries) > 2 * MOST_RESULTS:
                self._summaries.popitem(last=False)
        return made


def _beside(save_dir: Path) -> Path:
    """`outputs/influence` for `outputs/runs`; any other folder of runs holds its own."""
    return (save_dir.parent if save_dir.name == "runs" else save_dir) / "influence"


def _results_in(root: Path) -> list[StoredInfluence]:
    try:
        with os.scandir(root) as entries:
            folders = [one for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:  # not there, or not ours to read: there are no results
        return []
    found = []
    for entry in sorted(folders, key=lambda one: one.name, reverse=True):
        made = _stored(root, entry.name)
        if made is not None:
            found.append(made)
        if len(found) >= MOST_RESULTS:
            break
    return found


def _stored(root: Path, name: str) -> StoredInfluence | None:
    """The result in a folder; None where there is neither a result nor a plan."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # a name that could not be told to anybody
        return None
    for file, finished in ((_RESULTS, True), (_PLAN, False)):
        with suppress(OSError):
            seen = (root / name / file).lstat()
            if stat.S_ISREG(seen.st_mode):
                return StoredInfluence(
                    id=name,
                    folder=root / name,
                    made_at=seen.st_mtime,
                    finished=finished,
                    stamp=(seen.st_ino, seen.st_mtime_ns, seen.st_size),
                )
    return None


def damaged(stored: StoredInfluence, why: str) -> Refusal:
    """409 for a result that cannot be shown."""
    return Refusal(409, "damaged", f"{stored.id} cannot be read: {why}. Run its plan again.")


def _parse(stored: StoredInfluence) -> dict[str, Any]:
    if stored.stamp[2] > MOST_BYTES:
        _refuse(stored, f"results.json is larger than {MOST_BYTES >> 20} MiB")
    try:
        with stored.open(_RESULTS) as file:
            told = strict_json.loads(file.read(MOST_BYTES + 1))
    except OSError:
        _refuse(stored, "results.json is gone or no plain file")
    except FormatError:
        _refuse(stored, "results.json is no strict JSON")
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        _refuse(stored, f"results.json is not of format {FORMAT}")
    return told


def _refuse(stored: StoredInfluence, why: str) -> NoReturn:
    raise damaged(stored, why)


def _summary(stored: StoredInfluence) -> dict[str, Any]:
    blank: dict[str, Any] = {"name": stored.id, "step": None, "preconditioner": None}
    blank |= {"update_sequences": None, "evaluated_sequences": None, "problem": None}
    blank["requests"] = []
    if not stored.finished:
        return {**blank, "problem": "not finished; start the same plan again to go on with it"}
    try:
        told = _parse(stored)
        requests = [str(one["name"]) for one in told["requests"]]
        return {
            **blank,
            "name": str(told["name"]),
            "step": None if told["step"] is None else int(told["step"]),
            "preconditioner": str(told["plan"]["preconditioner"]),
            "requests": requests,
            "update_sequences": len(told["update"]["sequences"]),
            "evaluated_sequences": sum(len(one["sequences"]) for one in told["requests"]),
        }
    except Refusal as refusal:
        return {**blank, "problem": refusal.message}
    except (KeyError, TypeError, ValueError):
        return {**blank, "problem": "results.json lacks parts of the format it names"}


MOST_HEADER_BYTES = 16 << 20
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def arrays_in(file: BinaryIO) -> dict[str, Any]:
    """Types, shapes and places of the arrays in a safetensors file."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MOST_HEADER_BYTES, os.fstat(file.fileno()).st_size - 8):
        raise FormatError(f"the header of {length} bytes does not fit the file")
    try:
        told = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the header is no JSON: {error}") from None
    if not isinstance(told, dict):
        raise FormatError("the header is no table of arrays")
    return {name: {**each, "start": 8 + length} for name, each in told.items() if _is_entry(each)}


def _is_entry(each: Any) -> bool:
    return isinstance(each, dict) and {"dtype", "shape", "data_offsets"} <= set(each)


def array_in(file: BinaryIO, name: str, *, most_cells: int) -> np.ndarray[Any, Any] | None:
    """The array of this name in 64 bits, None where there is none; nothing else is read."""
    import numpy as np

    entry = arrays_in(file).get(name)
    if entry is None:
        return None
    kind = _TYPES.get(str(entry["dtype"]))
    try:
        shape = [int(side) for side in entry["shape"]]
        first, last = (int(at) for at in entry["data_offsets"])
    except (TypeError, ValueError):
        raise FormatError(f"{name} has no readable shape") from None
    cells = prod(shape)
    if kind is None or min(shape, default=0) < 0 or last - first != cells * int(kind[2]):
        raise FormatError(f"{name} has another length than its shape and type say")
    if cells > most_cells:
        raise FormatError(f"{name} has {cells:,} cells, more than the {most_cells:,} sent at once")
    file.seek(entry["start"] + first)
    data = file.read(last - first) if first >= 0 else b""
    if len(data) != last - first:
        raise FormatError(f"{name} runs past the end of the file")
    found = np.frombuffer(data, kind).reshape(shape)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float64)
