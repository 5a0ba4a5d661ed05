"""`RunQuery` and `select`: filter, sort, group and page the rows of runs in memory."""

from __future__ import annotations

import math
import operator
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from midstep.core.errors import ConfigError
from midstep.facts.index.run_row import RunRow

MOST_COLUMNS = 200
MOST_GROUPS = 500
_CONDITION = re.compile(r"([^=!<>]{1,200}?)\s*(!=|<=|>=|=|<|>)\s*(.{0,500})", re.DOTALL)
_SEARCHED = ("id", "name", "directory", "state", "recipe", "host", "note")
_FIELDS = frozenset(RunRow.__slots__) - {"config", "summary", "scalars", "tags"}


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Which runs to list, and how. Every field has a default.

    >>> RunQuery(where=("config.lr=0.1",)).where
    ('config.lr=0.1',)
    """

    q: str = ""
    """Words that must all occur in id, name, directory, state, recipe, host, tags or note."""
    states: tuple[str, ...] = ()
    """The run is in one of these states."""
    tags: tuple[str, ...] = ()
    """The run has all of these tags."""
    where: tuple[str, ...] = ()
    """Conditions such as `key=value`, also with != < <= > >=; all must hold."""
    sort: str = "-started_at"
    """A field, `config.KEY` or `summary.NAME`; a leading `-` sorts the largest first.

    Runs without the value come last.
    """
    group: str | None = None
    """A key to group by, as in `sort`."""
    columns: tuple[str, ...] | None = None
    """Which settings and values to include (`config.KEY`, `summary.NAME`); None for all."""
    offset: int = 0
    limit: int = 1000

    def __post_init__(self) -> None:
        for condition in self.where:
            if _CONDITION.fullmatch(condition) is None:
                raise ConfigError(
                    f"where {condition[:80]!r} is not a condition; write for example config.lr=0.1"
                )
        if self.offset < 0 or self.limit < 0:
            raise ConfigError(
                f"offset and limit must be at least 0, got {self.offset} and {self.limit}"
            )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How a value varies within a group."""

    mean: float
    std: float | None
    """Sample standard deviation; None for a single run."""
    count: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs with the same value of the key."""

    value: Any
    count: int
    summary: dict[str, Spread]


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """The answer to a query."""

    rows: list[RunRow]
    total: int
    """All runs in the index."""
    matching: int
    """Runs that the query selects; a page may hold fewer."""
    states: dict[str, int]
    """Number of runs in each state, over all runs."""
    groups: list[Group] | None = None
    config_columns: list[str] = field(default_factory=list)
    """Settings of the selected runs; those that differ come first."""
    summary_columns: list[str] = field(default_factory=list)


def select(rows: Sequence[RunRow], query: RunQuery) -> RunPage:
    """The rows that a query selects."""
    matching = [row for row in rows if _matches(row, query)]
    matching = _sorted(matching, query.sort)
    page = matching[query.offset : query.offset + query.limit]
    if query.columns is not None:
        page = [_with_columns(row, query.columns) for row in page]
    return RunPage(
        rows=page,
        total=len(rows),
        matching=len(matching),
        states=dict(Counter(row.state for row in rows)),
        groups=None if query.group is None else _groups(matching, query.group),
        config_columns=_config_columns(matching),
        summary_columns=list(dict.fromkeys(name for row in matching for name in row.summary))[
            :MOST_COLUMNS
        ],
    )


def value_of(row: RunRow, key: str) -> Any:
    """A field, a setting or a value of a run; None if it has none.

    A key that is not a field and has neither `config.` nor `summary.` is looked up in both.
    """
    if key in _FIELDS:
        return getattr(row, key)
    group, _, name = key.partition(".")
    if group == "config" and name in row.config:
        return row.config[name]
    if group == "summary" and name in row.summary:
        return row.summary[name]
    return row.config.get(key, row.summary.get(key))


def _matches(row: RunRow, query: RunQuery) -> bool:
    return (
        (not query.states or row.state in query.states)
        and all(tag in row.tags for tag in query.tags)
        and all(_holds(row, condition) for condition in query.where)
        and _has_words(row, query.q)
    )


def _has_words(row: RunRow, text: str) -> bool:
    if not text.strip():
        return True
    texts = [str(getattr(row, name) or "") for name in _SEARCHED]
    text_of_row = "\n".join([*texts, *row.tags]).casefold()
    return all(word in text_of_row for word in text.casefold().split())


def _holds(row: RunRow, condition: str) -> bool:
    match = _CONDITION.fullmatch(condition)
    if match is None:
        return False
    key, sign, wanted = match.groups()
    return _compare(value_of(row, key.strip()), sign, wanted)


_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(value: Any, sign: str, wanted: str) -> bool:
    """Compare numbers as numbers, anything else as text. A missing value differs from any."""
    number = _number(wanted)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if sign in _ORDERS:
        return is_number and number is not None and _ORDERS[sign](value, number)
    by_number = is_number and number is not None
    same = value == number if by_number else _text(value) == wanted
    return same if sign == "=" else not same


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    """The value as JSON would write it: true, false, null."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _sorted(rows: list[RunRow], sort: str) -> list[RunRow]:
    """Sort by a key. Missing values and NaN come last in both directions; equal ones by id."""
    descending, key = sort.startswith("-"), sort.removeprefix("-")
    known: list[RunRow] = []
    unknown: list[RunRow] = []
    for row in rows:
        value = value_of(row, key)
        is_missing = value is None or (isinstance(value, float) and math.isnan(value))
        (unknown if is_missing else known).append(row)
    # Two stable sorts: equal values keep the order of ids, in both directions.
    known.sort(key=lambda row: row.id)
    known.sort(key=lambda row: _rank(value_of(row, key)), reverse=descending)
    return known + sorted(unknown, key=lambda row: row.id)


def _rank(value: Any) -> tuple[int, float, str]:
    """Sort key: numbers before texts."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value).casefold())


def _with_columns(row: RunRow, columns: Iterable[str]) -> RunRow:
    wanted = set(columns)
    return replace(
        row,
        config={key: value for key, value in row.config.items() if f"config.{key}" in wanted},
        summary={name: value for name, value in row.summary.items() if f"summary.{name}" in wanted},
    )


def _config_columns(rows: Sequence[RunRow]) -> list[str]:
    """All settings; those in which the runs differ come first."""
    first: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    varying: set[str] = set()
    for row in rows:
        counts.update(row.config.keys())
        varying.update(
            key for key, value in row.config.items() if first.setdefault(key, value) != value
        )
    varying.update(key for key in first if counts[key] < len(rows))  # some runs do not have it
    return sorted(first, key=lambda key: key not in varying)[:MOST_COLUMNS]


def _groups(rows: Sequence[RunRow], key: str) -> list[Group]:
    """Groups, the largest first; runs without the key form a group."""
    by_text: dict[str, list[RunRow]] = {}
    for row in rows:
        by_text.setdefault(_text(value_of(row, key)), []).append(row)
    groups = [
        Group(value=value_of(members[0], key), count=len(members), summary=_spreads(members))
        for members in by_text.values()
    ]
    return sorted(groups, key=lambda group: (-group.count, _rank(group.value)))[:MOST_GROUPS]


def _spreads(rows: Sequence[RunRow]) -> dict[str, Spread]:
    """The spread of every value, over the runs that have a finite one."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.summary.items():
            if math.isfinite(value):
                columns.setdefault(name, []).append(value)
    return {
        name: Spread(
            mean=statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 else None,
            count=len(values),
        )
        for name, values in columns.items()
    }
