"""What the builder wrote beside the tables: audit, ledger, and how the dataset was built."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from typing import Any, BinaryIO, Literal, TypeVar

from pydantic import ValidationError

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.server.datasets.data_roots import StoredDataset
from midstep.server.datasets.dataset_schemas import AuditOut, LedgerOut

MOST_BYTES = 16 << 20
FORMAT = 1
MOST_EXAMPLES = 100
Model = TypeVar("Model", AuditOut, LedgerOut)


def read_sidecar(stored: StoredDataset, name: str) -> Any:
    """The content of a JSON file beside the tables; None where there is none to be read."""
    try:
        with open_plain(stored.folder, name) as file:
            text = file.read(MOST_BYTES + 1)
        return strict_json.loads(text) if len(text) <= MOST_BYTES else None
    except (OSError, FormatError):
        return None


def audit_json(stored: StoredDataset, *, offset: int, limit: int) -> dict[str, Any]:
    """Audit and ledger as `DatasetAuditOut`."""
    audit, audit_problem = _part(stored, "audit.json", _audit)
    ledger, ledger_problem = _part(stored, "ledger.json", lambda told: _ledger(told, offset, limit))
    return {
        "audit": audit,
        "audit_problem": audit_problem,
        "ledger": ledger,
        "ledger_problem": ledger_problem,
    }


def _part(stored: StoredDataset, name: str, tell: Any) -> tuple[dict[str, Any] | None, str | None]:
    """A file as its wire type, or why there is none."""
    try:
        with open_plain(stored.folder, name) as file:
            text = file.read(MOST_BYTES + 1)
    except OSError:
        return None, None
    if len(text) > MOST_BYTES:
        return None, f"{name} is larger than {MOST_BYTES >> 20} MiB"
    try:
        told = strict_json.loads(text)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            return None, f"{name} is not of format {FORMAT}"
        return tell(told).model_dump(), None
    except FormatError:
        return None, f"{name} is no strict JSON"
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None, f"{name} lacks parts of its format"


def _audit(told: dict[str, Any]) -> AuditOut:
    levels = {
        str(name): {
            "leaks": level["leaks"],
            "threshold": level.get("threshold"),
            "examples": [_example(each) for each in level["examples"][:MOST_EXAMPLES]],
        }
        for name, level in told["levels"].items()
    }
    return AuditOut.model_validate({"clean": told["clean"], "levels": levels})


def _example(told: dict[str, Any]) -> dict[str, Any]:
    names = ("split_a", "row_a", "split_b", "row_b", "kind", "text", "similarity")
    return {name: told.get(name) for name in names}


def _ledger(told: dict[str, Any], offset: int, limit: int) -> LedgerOut:
    shortages = told["shortages"]
    names = ("pair", "tier", "wanted", "found", "filled_from")
    return LedgerOut.model_validate(
        {
            "quotas": told["quotas"],
            "made": told["made"],
            "short_pairs": told["short_pairs"],
            "dropped": told.get("dropped", 0),
            "shortages": [
                {name: each[name] for name in names} for each in shortages[offset : offset + limit]
            ],
            "kept": len(shortages),
            "offset": offset,
        }
    )


Kind = Literal["questions", "sources", "keywords"]
LONGEST_BYTES = 64 * 1024
"""Of a line that is read; what is longer is left out."""


def has_texts(stored: StoredDataset, kind: Kind) -> bool:
    """Whether the builder kept the texts of these rows."""
    try:
        with open_plain(stored.folder, "texts", f"{kind}.offsets.npy"):
            return True
    except OSError:
        return False


def texts_of(stored: StoredDataset, kind: Kind, rows: Iterable[int]) -> dict[int, str | None]:
    """The text of each row; None where there is none, or it cannot be read."""
    wanted = sorted({int(row) for row in rows})
    try:
        with (
            open_plain(stored.folder, "texts", f"{kind}.offsets.npy") as offsets,
            open_plain(stored.folder, "texts", f"{kind}.jsonl") as lines,
        ):
            start, count = _data_of(offsets)
            return {row: _text(offsets, lines, start, count, row) for row in wanted}
    except (OSError, ValueError):  # ids are shown in their place
        return dict.fromkeys(wanted)


def _data_of(file: BinaryIO) -> tuple[int, int]:
    """Where the numbers of a one-dimensional int64 `.npy` file begin, and how many there are."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError("another version of .npy than the builder writes")
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or kind != np.dtype("<i8"):
        raise ValueError("no list of offsets")
    return file.tell(), shape[0]


def _text(offsets: BinaryIO, lines: BinaryIO, start: int, count: int, row: int) -> str | None:
    if not 0 <= row < count - 1:
        return None
    ends = os.pread(offsets.fileno(), 16, start + 8 * row)
    if len(ends) != 16:
        return None
    first, last = struct.unpack("<qq", ends)
    if not 0 <= first < last <= first + LONGEST_BYTES:
        return None
    try:
        found = json.loads(os.pread(lines.fileno(), last - first, first))
    except (ValueError, RecursionError):
        return None
    return found.encode("utf-8", "replace").decode() if isinstance(found, str) else None
