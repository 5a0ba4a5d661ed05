"""By what data is known again: eight characters for every table and every setting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import DatasetError
from midstep.data.embedding.layout import TABLES

__all__ = ["check_fingerprint", "data_fingerprint"]

LENGTH = 8


def data_fingerprint(
    digests: Mapping[str, str], settings: Mapping[str, Any], *, whole: bool = True
) -> dict[str, str]:
    """Short strings: digests of the tables, in their order, and of the settings, by name.

    Args:
        digests: of every table.
        settings: on which batches depend.
        whole: whether the digests are of all rows, or of a sample of them.

    >>> data_fingerprint({"train_idx": "0123456789abcdef"}, {"n_neg": 4})["tables"]
    '01234567'
    """
    return {
        "of": "all rows" if whole else "some rows",
        "tables": "".join(digests[name][:LENGTH] for name in TABLES if name in digests),
        "settings": " ".join(f"{name}={_short(value)}" for name, value in settings.items()),
    }


def check_fingerprint(saved: Mapping[str, str], now: Mapping[str, str]) -> None:
    """One `DatasetError` that says which tables and settings changed since `saved`."""
    if saved["of"] != now["of"]:
        raise DatasetError(
            f"the saved place knows the data by {saved['of']}, now {now['of']} were read; open it "
            "with the same 'verify', or convert it once, which notes digests in config.json"
        )
    problems = [
        f"the table {name} has changed"
        for name, old, new in zip(TABLES, _cut(saved["tables"]), _cut(now["tables"]), strict=False)
        if old != new
    ]
    before, after = _named(saved["settings"]), _named(now["settings"])
    problems += [
        f"the setting {name} has changed"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    if problems or saved != now:
        raise DatasetError(
            "the saved place belongs to other data; use the same, or begin anew",
            problems or ["the layout of the fingerprint differs"],
        )


def _short(value: Any) -> str:
    return hashlib.sha256(strict_json.dumps(value).encode()).hexdigest()[:LENGTH]


def _cut(text: str) -> list[str]:
    return [text[at : at + LENGTH] for at in range(0, len(text), LENGTH)]


def _named(text: str) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in text.split())
