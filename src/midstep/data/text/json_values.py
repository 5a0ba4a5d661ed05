"""Parse JSON from the files of a dataset."""

from __future__ import annotations

from typing import Any

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError


def parse_json(content: str | bytes, where: str) -> Any:
    """Parse strict JSON.

    Args:
        content: the JSON text.
        where: names its file and position in the error.

    >>> parse_json("[1", "pairs.jsonl:7")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    midstep.core.errors.DatasetError: pairs.jsonl:7 is not JSON...
    """
    try:
        return strict_json.loads(content)
    except (FormatError, TypeError) as error:  # TypeError: a database may hold a number here
        raise DatasetError(f"{where} is {error}") from None
