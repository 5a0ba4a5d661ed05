"""A triplet: a question, two sources, and which of them answers it better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from midstep.core import storage, strict_json
from midstep.core.errors import DatasetError, FormatError

__all__ = [
    "BOTH_IRRELEVANT",
    "FIRST_BETTER",
    "LABELS",
    "SECOND_BETTER",
    "UNLABELLED",
    "Triplet",
    "checked_triplet",
    "read_triplets",
    "write_triplets",
]

UNLABELLED, BOTH_IRRELEVANT, FIRST_BETTER, SECOND_BETTER = -1, 0, 1, 2
LABELS = (UNLABELLED, BOTH_IRRELEVANT, FIRST_BETTER, SECOND_BETTER)


class Triplet(NamedTuple):
    """A question and two sources, by their ids.

    >>> Triplet("q7", "s1", "s2").label
    -1
    """

    question_id: str
    source_id_1: str
    source_id_2: str
    label: int = UNLABELLED
    """−1 unlabelled, 0 both irrelevant, 1 the first is better, 2 the second is."""


def write_triplets(path: str | Path, triplets: Iterable[Triplet]) -> int:
    """Write triplets as JSON Lines, the whole file at once; gives their number.

    >>> write_triplets("some.jsonl", [Triplet("q", "a", "b", 1)]), list(read_triplets("some.jsonl"))
    (1, [Triplet(question_id='q', source_id_1='a', source_id_2='b', label=1)])
    """
    count = 0
    with storage.replacement(path) as file:
        for count, triplet in enumerate(triplets, start=1):
            file.write(
                (strict_json.dumps(list(checked_triplet(triplet, str(count)))) + "\n").encode()
            )
    return count


def read_triplets(path: str | Path) -> Iterator[Triplet]:
    """The triplets of a file, one at a time."""
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{Path(path).name}:{number}"
            try:
                value = strict_json.loads(line)
            except FormatError as error:
                raise DatasetError(f"{where} is {error}") from None
            yield checked_triplet(value, where)


def checked_triplet(value: Any, where: str) -> Triplet:
    """The triplet in a parsed line, or a `DatasetError` that says where it is wrong."""
    good = isinstance(value, list | tuple) and len(value) == 4
    if not good or not all(isinstance(each, str) for each in value[:3]):
        raise DatasetError(f"triplet {where} is {value!r}, expected three ids and a label")
    if isinstance(value[3], bool) or value[3] not in LABELS:
        raise DatasetError(f"the label of triplet {where} is {value[3]!r}, expected -1, 0, 1 or 2")
    if value[1] == value[2]:
        raise DatasetError(f"triplet {where} names the source {value[1]!r} twice")
    return Triplet(*value)
