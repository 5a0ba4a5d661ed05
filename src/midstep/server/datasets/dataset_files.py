"""Files that the builder writes next to the tables: audit, ledger, build record, texts."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Literal

from pydantic import ValidationError

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import open_plain
from midstep.server.datasets.data_roots import StoredDataset
from midstep.server.datasets.dataset_schemas import (
    AuditExample,
    AuditLevel,
    AuditOut,
    LedgerOut,
    ShortageOut,
)
from midstep.server.schema_base import Out

MOST_BYTES = 16 << 20
"""Largest JSON file that is read."""
FORMAT = 1
MOST_EXAMPLES = 100
"""Examples of leaks that are sent for each level."""


def read_sidecar(stored: StoredDataset, name: str) -> Any:
    """The content of a JSON file next to the tables; None if it cannot be read."""
    try:
        text = _read_bytes(stored, name)
        return strict_json.loads(text) if len(text) <= MOST_BYTES else None
    except (OSError, FormatError):
        return None


def _read_bytes(stored: StoredDataset, name: str) -> bytes:
    """The content of a file; one byte more than the limit tells that it is too large."""
    with open_plain(stored.folder, name) as file:
        return file.read(MOST_BYTES + 1)


def audit_json(stored: StoredDataset, *, offset: int, limit: int) -> dict[str, Any]:
    """Audit and ledger as `DatasetAuditOut`."""
    audit, audit_problem = _part(stored, "audit.json", _audit)
    ledger, ledger_problem = _part(
        stored, "ledger.json", lambda record: _ledger(record, offset, limit)
    )
    return {
        "audit": audit,
        "audit_problem": audit_problem,
        "ledger": ledger,
        "ledger_problem": ledger_problem,
    }


def _part(
    stored: StoredDataset, name: str, parse: Callable[[dict[str, Any]], Out]
) -> tuple[dict[str, Any] | None, str | None]:
    """A file as its response model, and the problem if it cannot be read."""
    try:
        text = _read_bytes(stored, name)
    except OSError:
        return None, None
    if len(text) > MOST_BYTES:
        return None, f"{name} is larger than {MOST_BYTES >> 20} MiB"
    try:
        record = strict_json.loads(text)
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            return None, f"{name} does not have format {FORMAT}"
        return parse(record).model_dump(), None
    except FormatError:
        return None, f"{name} is not strict JSON"
    except (AttributeError, KeyError, TypeError, ValidationError):
        return None, f"{name} lacks fields of its format"


def _audit(record: dict[str, Any]) -> AuditOut:
    levels = {
        str(name): {
            **AuditLevel.pick(level),
            "examples": [AuditExample.pick(each) for each in level["examples"][:MOST_EXAMPLES]],
        }
        for name, level in record["levels"].items()
    }
    return AuditOut.model_validate({"clean": record["clean"], "levels": levels})


def _ledger(record: dict[str, Any], offset: int, limit: int) -> LedgerOut:
    shortages = record["shortages"]
    shown = shortages[offset : offset + limit]
    fields = {
        **LedgerOut.pick({"dropped": 0, **record}),
        "shortages": [ShortageOut.pick(each) for each in shown],
        "kept": len(shortages),
        "offset": offset,
    }
    return LedgerOut.model_validate(fields)


Kind = Literal["questions", "sources", "keywords"]
LONGEST_BYTES = 64 * 1024
"""Longest text that is read; a longer one is left out."""


def has_texts(stored: StoredDataset, kind: Kind) -> bool:
    """Whether the builder stored the texts of these rows."""
    try:
        with open_plain(stored.folder, "texts", f"{kind}.offsets.npy"):
            return True
    except OSError:
        return False


def texts_of(stored: StoredDataset, kind: Kind, rows: Iterable[int]) -> dict[int, str | None]:
    """The text of each row; None if there is none or it cannot be read."""
    row_ids = sorted({int(row) for row in rows})
    try:
        with (
            open_plain(stored.folder, "texts", f"{kind}.offsets.npy") as offsets,
            open_plain(stored.folder, "texts", f"{kind}.jsonl") as lines,
        ):
            start, count = _data_of(offsets)
            return {row: _text(offsets, lines, start, count, row) for row in row_ids}
    except (OSError, ValueError):  # the page shows ids instead
        return dict.fromkeys(row_ids)


def _data_of(file: BinaryIO) -> tuple[int, int]:
    """Offset and count of the numbers in a one-dimensional int64 `.npy` file."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f".npy version {version}, expected (1, 0)")
    shape, _, kind = np.lib.format.read_array_header_1_0(file)
    if len(shape) != 1 or kind != np.dtype("<i8"):
        raise ValueError(f"shape {shape} of {kind}, expected one dimension of int64")
    return file.tell(), shape[0]


def _text(offsets: BinaryIO, lines: BinaryIO, start: int, count: int, row: int) -> str | None:
    if not 0 <= row < count - 1:
        return None
    # Two adjacent offsets are the start and the end of the line.
    ends = os.pread(offsets.fileno(), 16, start + 8 * row)
    if len(ends) != 16:
        return None
    first, last = struct.unpack("<qq", ends)
    # Offsets come from a file that anyone may have changed, so they are checked before the read.
    if not 0 <= first < last <= first + LONGEST_BYTES:
        return None
    try:
        text = json.loads(os.pread(lines.fileno(), last - first, first))
    except (ValueError, RecursionError):
        return None
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else None
