"""`midstep ctl batch`: the samples of the last captured batch, as rows that can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.ctl.run_option import RunOption, with_run_option
from midstep.cli.output.screen import Screen
from midstep.cli.output.terminal_escape import one_line
from midstep.cli.output.text_format import align_columns, format_number
from midstep.core.errors import ConfigError, StorageError

MOST_ROWS = 16
"""Rows of samples; `--json` has all of them."""
MOST_COLUMNS = 12
LONG = ("text", "values")
"""Columns that are never aligned to the right."""
CELL_CHARACTERS = 24
TEXT_CHARACTERS = 100


@with_run_option
def batch(
    target: RunOption,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the picture of the batch to this PNG file.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option("--sample", min=0, help="Only this sample, at full resolution.")
    ] = None,
    layer: Annotated[
        str, typer.Option("--layer", help="Layer of the picture: image, mask or prediction.")
    ] = "image",
) -> None:
    """Show the last captured batch: samples with target, prediction, loss; the highest loss first.

    With --sample one sample, at full resolution: the whole text, all values of a row.
    """
    client = target.client()
    if sample is not None:
        shown = client.batch_sample(sample)
        if save is not None:
            _check_picture(shown, shown["width"])
            _save_picture(client.batch_sample(sample, picture=True, layer=layer), save)
        target.answer(shown, lambda screen: _print_sample(screen, shown, save))
        return
    captured = client.batch()
    if save is not None:
        _check_picture(captured, captured["grid"])
        _save_picture(client.batch_picture(etag=captured["etag"], layer=layer), save)
    target.answer(captured, lambda screen: _print_batch(screen, captured, save))


def _check_picture(captured: dict[str, Any], geometry: Any) -> None:
    if geometry is None:
        raise ConfigError(
            f"this batch has no picture, because its samples are {captured['kind']}; "
            "use --json instead"
        )


def _save_picture(png: bytes, path: Path) -> None:
    try:
        path.write_bytes(png)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}; name another file with --save"
        ) from error


def _print_batch(screen: Screen, captured: dict[str, Any], saved: Path | None) -> None:
    shape, loss = captured["shape"][1:], captured["loss"]
    size = f" {shape}" if shape else ""
    screen.print_line(
        f"batch {captured['step']}: {captured['count']} samples{size}, "
        f"loss {format_number(loss)}, kind {captured['kind']}"
    )
    for note in map(captured.get, ("note", "loss_note", "loss_fact")):
        if note:
            screen.print_line(one_line(note))
    for line in sample_lines(captured):
        screen.print_line(f"  {line}")
    if saved is not None:
        screen.print_line(f"picture in {saved}")


def sample_lines(captured: dict[str, Any]) -> list[str]:
    """What the answer has of its samples, as lines: their masks, and a row for each of the first.

    The highest loss comes first; without losses they are in the order of the loader.
    """
    return [*_mask_lines(captured), *_broken_lines(captured), *_rows(captured)]


def _mask_lines(captured: dict[str, Any]) -> list[str]:
    mask = captured.get("mask")
    if mask is None:
        return []
    shares = [f"{one_line(each['name'])} {each['share']:.1%}" for each in mask["classes"]]
    return [f"mask: {', '.join(shares)}".replace("%", " %")]


def _broken_lines(captured: dict[str, Any]) -> list[str]:
    broken = captured.get("nonfinite_in") or []
    ids = [_id_of(captured, row) for row, count in enumerate(broken) if count]
    if not ids:
        return []
    more = f" and {len(ids) - MOST_ROWS} more" if len(ids) > MOST_ROWS else ""
    named = ", ".join(ids[:MOST_ROWS])
    return [f"{_broken(captured['nonfinite'])}, in sample {named}{more}"]


def _broken(count: int) -> str:
    return "1 value is NaN or infinite" if count == 1 else f"{count:,} values are NaN or infinite"


def _id_of(captured: dict[str, Any], row: int) -> str:
    ids = captured["sample_ids"]
    return str(captured["first"] + row if ids is None else ids[row])


def _rows(captured: dict[str, Any]) -> list[str]:
    columns = _columns(captured)
    if len(columns) == 1 or not captured["shown"]:
        return []
    rows = [[cell(row) for _, cell in columns] for row in _order(captured)[:MOST_ROWS]]
    numeric = [
        index
        for index, (name, _) in enumerate(columns)
        if name not in LONG
        and all(row[index][:1] in "0123456789-" or row[index] == "NaN" for row in rows)
    ]
    lines = align_columns([[name for name, _ in columns], *rows], right=numeric)
    hidden = captured["count"] - len(rows)
    if hidden > 0:
        lines.append(f"{hidden:,} further samples; --json has the first {captured['shown']:,}")
    return lines


def _order(captured: dict[str, Any]) -> list[int]:
    rows, losses = list(range(captured["shown"])), captured.get("losses")
    if losses is None:
        return rows
    return sorted(rows, key=lambda row: -_sortable(losses[row]))


def _sortable(loss: Any) -> float:
    """Values that are not finite come first: readers look for them."""
    is_number = isinstance(loss, int | float) and loss == loss  # noqa: PLR0124 - NaN is not
    return float(loss) if is_number else float("inf")


Cells = Callable[[int], str]


def _columns(captured: dict[str, Any]) -> list[tuple[str, Cells]]:
    """Name and cells of each column; the text comes last, because it is long."""
    columns: list[tuple[str, Cells]] = [("sample", lambda row: _id_of(captured, row))]
    for name, field in (("target", "labels"), ("prediction", "predictions"), ("loss", "losses")):
        if captured.get(field) is not None:
            columns.append((name, _cells(captured[field], CELL_CHARACTERS)))
    if captured.get("loss_shares") is not None:
        shares = [f"{float(each):.1%}" for each in captured["loss_shares"]]
        columns.append(("share", _cells(shares, CELL_CHARACTERS)))
    named = captured.get("columns") or []
    for each in sorted(named, key=lambda each: each["role"] != "target")[:MOST_COLUMNS]:
        columns.append((each["name"], _cells(each["cells"], CELL_CHARACTERS)))
    if captured.get("texts") is not None:
        columns.append(("text", _cells(captured["texts"], TEXT_CHARACTERS)))
    elif captured.get("rows") is not None:
        words = [" ".join(map(format_number, row)) for row in captured["rows"]]
        columns.append(("values", _cells(words, TEXT_CHARACTERS)))
    return columns


def _cells(values: list[Any], most: int) -> Cells:
    def cell(row: int) -> str:
        value = values[row]
        text = "" if value is None else one_line(_written(value))
        return text if len(text) <= most else f"{text[: most - 1]}…"

    return cell


def _written(value: Any) -> str:
    """A number with five digits; NaN as the word."""
    text = format_number(value)
    return {"nan": "NaN"}.get(text, text)


def _print_sample(screen: Screen, sample: dict[str, Any], saved: Path | None) -> None:
    shape = f" {sample['shape']}" if sample["shape"] else ""
    parts = [f"sample {sample['index']} of batch {sample['step']}:{shape} {sample['kind']}"]
    fields = (
        ("id", "sample_id"),
        ("target", "label"),
        ("prediction", "prediction"),
        ("loss", "loss"),
        ("share of the loss", "loss_share"),
    )
    parts += [
        f"{name} {one_line(_written(sample[field]))}"
        for name, field in fields
        if sample.get(field) is not None
    ]
    screen.print_line(", ".join(parts))
    if sample["nonfinite"]:
        screen.print_line(_broken(sample["nonfinite"]))
    if sample.get("text") is not None:
        screen.print_line(sample["text"])
    elif sample["shape"]:
        low, high = format_number(sample["low"]), format_number(sample["high"])
        screen.print_line(f"values {low} to {high}")
    for line in _mask_lines(sample):
        screen.print_line(line)
    for column in sample.get("columns") or []:
        screen.print_line(f"  {one_line(column['name'])}: {one_line(_written(column['cells'][0]))}")
    if saved is not None:
        screen.print_line(f"picture in {saved}")
