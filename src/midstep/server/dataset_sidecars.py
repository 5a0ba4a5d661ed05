"""What the builder wrote beside the tables: audit, ledger, and how the dataset was built."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.server.data_roots import StoredDataset
from midstep.server.models_datasets import AuditOut, LedgerOut
from midstep.server.plain_files import open_plain

__all__ = ["read_sidecar", "tell_audit"]

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


def tell_audit(stored: StoredDataset, *, offset: int, limit: int) -> dict[str, Any]:
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
