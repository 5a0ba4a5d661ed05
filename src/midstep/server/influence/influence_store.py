"""Stored influence results. They are found by listing; no id of a request is joined to a path."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections import OrderedDict
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.influence.study.results_file import FORMAT
from midstep.server.datasets.data_roots import StoredFolder, folder_names, list_newest
from midstep.server.problems import Refusal, not_found
from midstep.server.runs.run_table import RunTable

if TYPE_CHECKING:
    import numpy as np

MOST_RESULTS = 500
"""Results that are listed for each folder."""
MOST_BYTES = 64 << 20
"""Largest results.json that is read, and most bytes of results.json files that stay in memory."""
MOST_HEADER_BYTES = 16 << 20
"""Largest header of a safetensors file that is parsed."""
_RESULTS, _PLAN = "results.json", "plan.json"


@dataclass(frozen=True, kw_only=True)
class StoredInfluence(StoredFolder):
    """One folder under `influence/`. It was made when it was finished, or else started."""

    finished: bool
    stamp: tuple[int, int, int]
    """Inode, time and length of its results.json; it changes with the content."""

    def open(self, *parts: str) -> AbstractContextManager[BinaryIO]:
        """Open a regular file in the folder, without following links."""
        return open_plain(self.folder, *parts)

    def request_folder(self, index: int) -> str:
        """The name of the folder of a request, which starts with its number."""
        for name in folder_names(self.folder / "requests"):
            if name.startswith(f"{index:03d}_") and not name.endswith(".batch"):
                return name
        raise not_found()


class InfluenceStore:
    """All results next to the runs of a server, with a cache of the last ones read.

    Args:
        runs: results are in `outputs/influence` if the runs are in `outputs/runs`.
    """

    def __init__(self, runs: RunTable) -> None:
        self._runs = runs
        self._read: OrderedDict[tuple[int, int, int], dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def folders(self) -> list[Path]:
        """The folders that are searched for results."""
        return list(dict.fromkeys(_beside(folder) for folder in self._runs.folders()))

    def listing(self) -> list[StoredInfluence]:
        """All results, newest first; the same name in a second folder gets a number."""
        return list_newest(each for root in self.folders() for each in _results_in(root))

    def get(self, result_id: str) -> StoredInfluence:
        """The finished result of this id; every other id gets the same 404."""
        for each in self.listing():
            if each.id == result_id and each.finished:
                return each
        raise not_found()

    def read(self, stored: StoredInfluence) -> dict[str, Any]:
        """Its results.json; a 409 if it is damaged."""
        with self._lock:
            if stored.stamp in self._read:
                self._read.move_to_end(stored.stamp)
                return self._read[stored.stamp]
        # Parsed outside the lock: a file of 64 MiB must not block other requests.
        results = _parse(stored)
        with self._lock:
            self._read[stored.stamp] = results
            while len(self._read) > 1 and sum(key[2] for key in self._read) > MOST_BYTES:
                self._read.popitem(last=False)
        return results


def _beside(save_dir: Path) -> Path:
    """`outputs/influence` for `outputs/runs`; for any other folder of runs a folder inside it."""
    return (save_dir.parent if save_dir.name == "runs" else save_dir) / "influence"


def _results_in(root: Path) -> list[StoredInfluence]:
    # Names start with the time, so the newest come first.
    results = (_stored(root, name) for name in reversed(folder_names(root)))
    return list(islice((each for each in results if each is not None), MOST_RESULTS))


def _stored(root: Path, name: str) -> StoredInfluence | None:
    """The result in a folder; None if it has neither a result nor a plan."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # JSON cannot hold such a name
        return None
    for file, finished in ((_RESULTS, True), (_PLAN, False)):
        with suppress(OSError):
            status = (root / name / file).lstat()
            if stat.S_ISREG(status.st_mode):
                return StoredInfluence(
                    id=name,
                    folder=root / name,
                    made_at=status.st_mtime,
                    finished=finished,
                    stamp=(status.st_ino, status.st_mtime_ns, status.st_size),
                )
    return None


def damaged(stored: StoredInfluence, why: str) -> Refusal:
    """A 409 for a result that cannot be shown."""
    return Refusal(409, "damaged", f"{stored.id} cannot be read: {why}. Run its plan again.")


def _parse(stored: StoredInfluence) -> dict[str, Any]:
    if stored.stamp[2] > MOST_BYTES:
        raise damaged(stored, f"results.json is larger than {MOST_BYTES >> 20} MiB")
    try:
        with stored.open(_RESULTS) as file:
            results = strict_json.loads(file.read(MOST_BYTES + 1))
    except OSError:
        raise damaged(stored, "results.json is missing or is not a regular file") from None
    except FormatError:
        raise damaged(stored, "results.json is not strict JSON") from None
    if not isinstance(results, dict) or results.get("format") != FORMAT:
        raise damaged(stored, f"results.json does not have format {FORMAT}")
    return results


@lru_cache(maxsize=2 * MOST_RESULTS)
def summarize(stored: StoredInfluence) -> dict[str, Any]:
    """The fields of a result in the list. Cached, since `stored` changes with the content."""
    blank: dict[str, Any] = {"name": stored.id, "step": None, "preconditioner": None}
    blank |= {"update_sequences": None, "evaluated_sequences": None, "problem": None}
    blank["requests"] = []
    if not stored.finished:
        return {**blank, "problem": "not finished; start the same plan again to continue it"}
    try:
        results = _parse(stored)
        requests = [str(one["name"]) for one in results["requests"]]
        return {
            **blank,
            "name": str(results["name"]),
            "step": None if results["step"] is None else int(results["step"]),
            "preconditioner": str(results["plan"]["preconditioner"]),
            "requests": requests,
            "update_sequences": len(results["update"]["sequences"]),
            "evaluated_sequences": sum(len(one["sequences"]) for one in results["requests"]),
        }
    except Refusal as refusal:
        return {**blank, "problem": str(refusal)}
    except (KeyError, TypeError, ValueError):
        return {**blank, "problem": "results.json lacks fields of its format"}


_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def arrays_in(file: BinaryIO) -> dict[str, Any]:
    """Type, shape and offset of each array in a safetensors file.

    Read by hand, because the library opens a path, and the file must be opened without following
    links.
    """
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MOST_HEADER_BYTES, os.fstat(file.fileno()).st_size - 8):
        raise FormatError(f"the header of {length} bytes does not fit into the file")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FormatError("the header is not a table of arrays")
    return {name: {**each, "start": 8 + length} for name, each in header.items() if _is_entry(each)}


def _is_entry(each: Any) -> bool:
    return isinstance(each, dict) and {"dtype", "shape", "data_offsets"} <= set(each)


def array_in(file: BinaryIO, name: str, *, most_cells: int) -> np.ndarray[Any, Any] | None:
    """The array of this name as float64, None if there is none; no other array is read."""
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
        raise FormatError(f"the length of {name} does not match its shape and type")
    if cells > most_cells:
        raise FormatError(f"{name} has {cells:,} cells, more than the limit of {most_cells:,}")
    file.seek(entry["start"] + first)
    data = file.read(last - first) if first >= 0 else b""
    if len(data) != last - first:
        raise FormatError(f"{name} extends past the end of the file")
    array = np.frombuffer(data, kind).reshape(shape)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
