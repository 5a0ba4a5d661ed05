"""Read and check tables of questions and sources: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.data.build.build_config import BuildConfig
from midstep.data.steering.storage.layout import SPLITS

Records = Generator[tuple[str, dict[str, Any]], None, None]
"""(where, row) for each row."""
LISTED_PROBLEMS = 20
"""Wrong rows that an error lists; it must stay readable."""
LONGEST_CELL = 16 * 1024 * 1024
"""Characters of a cell. The default of the csv module, 128 KiB, is too short for a document."""


@dataclass(kw_only=True)
class Rows:
    """The rows of all tables, column by column. Stages store the fields under these names."""

    questions: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    relevance: list[float] = field(default_factory=list)
    keywords: list[list[str]] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    """train, val or test; empty if the build computes the split."""

    def __len__(self) -> int:
        return len(self.questions)


def check_tables(config: BuildConfig) -> None:
    """Check that every table exists and has its columns, without reading past its first row."""
    for path in config.table_paths:
        with closing(_records(path, config)) as records:
            next(records, None)


def read_rows(config: BuildConfig) -> Rows:
    """Read all rows of all tables. One `DatasetError` lists everything that is wrong."""
    rows, problems = Rows(), list[str]()
    for path in config.table_paths:
        for where, record in _records(path, config):
            _add_row(rows, record, where, config, problems)
    if problems:
        listed, more = problems[:LISTED_PROBLEMS], len(problems) - LISTED_PROBLEMS
        raise DatasetError(
            "the table cannot be used", [*listed, f"… and {more} more"] if more > 0 else listed
        )
    if not len(rows):
        names = ", ".join(path.name for path in config.table_paths)
        raise DatasetError(f"{names} has no rows; a dataset needs questions and sources")
    return rows


def _records(path: Path, config: BuildConfig) -> Records:
    """(where, row) for each row; the columns are checked first."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise DatasetError(f"{path} {problem}; name a CSV, TSV or Parquet file")
    if path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path, config)
    if path.suffix.lower() in (".csv", ".tsv"):
        return _csv(path, config)
    raise DatasetError(f"{path.name} is neither .csv, .tsv nor .parquet; save it as one of them")


def _csv(path: Path, config: BuildConfig) -> Records:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    limit = csv.field_size_limit(LONGEST_CELL)  # of the whole process
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            _check_columns(path, list(reader.fieldnames or []), config)
            for record in reader:
                if None in record:
                    raise DatasetError(
                        f"{path.name} line {reader.line_num} has more cells than the first line; "
                        "put texts with commas in quotation marks"
                    )
                yield f"{path.name} line {reader.line_num}", record
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path.name} is not UTF-8: {error.reason}; save it as UTF-8") from None
    except csv.Error as error:
        raise DatasetError(f"{path.name} is not a complete CSV file: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _parquet(path: Path, config: BuildConfig) -> Records:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError.for_library("pyarrow", "parquet") from None
    try:
        file = parquet.ParquetFile(path)
        _check_columns(path, list(file.schema_arrow.names), config)
        wanted = [name for name in _columns(config) if name in file.schema_arrow.names]
        row = 0
        for batch in file.iter_batches(batch_size=4096, columns=wanted):
            for record in batch.to_pylist():
                yield f"{path.name} row {row}", record
                row += 1
    except pyarrow.ArrowException as error:
        reason = str(error).splitlines()[0][:200]
        raise DatasetError(f"{path.name} is not a complete Parquet file: {reason}") from None


def _columns(config: BuildConfig) -> list[str]:
    names = (
        config.question_column,
        config.source_column,
        config.relevance_column,
        config.split_column,
        config.keywords_column,
    )
    return [name for name in names if name]


def _check_columns(path: Path, present: list[str], config: BuildConfig) -> None:
    # Only a column of the default name may be missing: a name that the user gives must exist.
    optional = {BuildConfig.keywords_column}
    required = [name for name in _columns(config) if name not in optional]
    missing = [name for name in required if name not in present]
    if not missing:
        return
    if missing == [config.relevance_column]:
        advice = "; without it every row would count 1: relevance_column=None (--no-relevance)"
    elif len(present) == 1 and ";" in present[0]:
        advice = "; its cells have semicolons between them: save it with commas, or tabs (.tsv)"
    else:
        advice = "; rename it, or say what the columns are called (--question-column and so on)"
    raise DatasetError(
        f"{path.name} has no column {', '.join(map(repr, missing))}, "
        f"it has {', '.join(map(repr, present)) or 'none'}{advice}"
    )


def _add_row(
    rows: Rows, record: dict[str, Any], where: str, config: BuildConfig, problems: list[str]
) -> None:
    """Add a row, or its problems. After the first problem rows are only checked, not added."""
    cells: dict[str, Any] = {}
    for name, column, parse, default in (
        ("questions", config.question_column, _parse_text, None),
        ("sources", config.source_column, _parse_text, None),
        ("relevance", config.relevance_column, _parse_relevance, 1.0),
        ("splits", config.split_column, _parse_split, ""),
        (
            "keywords",
            config.keywords_column,
            partial(_parse_keywords, config.keyword_separator),
            [],
        ),
    ):
        if column is None:
            cells[name] = default
            continue
        value = record.get(column)
        try:
            cells[name] = parse(value)
        except _WrongCellError as expected:
            problems.append(f"{where}: {column} is {_shown(value)}, expected {expected}")
    if not problems:
        for name, cell in cells.items():
            getattr(rows, name).append(cell)


class _WrongCellError(Exception):
    """A cell cannot be used; the message says what was expected."""


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _WrongCellError("a text")
    return value


def _parse_relevance(value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise _WrongCellError("a number from 0 to 1")
    return number


def _parse_split(value: Any) -> str:
    if value not in SPLITS:
        raise _WrongCellError(", ".join(SPLITS))
    return str(value)


def _parse_keywords(separator: str, value: Any) -> list[str]:
    if value is None:
        return []
    parts = value.split(separator) if isinstance(value, str) else value
    if not isinstance(parts, list) or any(not isinstance(each, str) for each in parts):
        raise _WrongCellError(f"texts with {separator!r} between them, or a list of texts")
    return [each.strip() for each in parts if each.strip()]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
