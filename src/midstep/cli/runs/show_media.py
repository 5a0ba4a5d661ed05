"""`midstep runs media`: what a run logged besides numbers, listed, printed or saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.terminal_escape import VisibleStream, one_line
from midstep.cli.output.text_format import format_number
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run
from midstep.core import strict_json
from midstep.core.errors import ConfigError
from midstep.core.files.storage import replacement

if TYPE_CHECKING:
    from midstep.facts.format.media_files import MediaItem
    from midstep.facts.read.media import MediaReader, StoredMedia

BAR = 40
"""Characters of the longest bar of a histogram."""


def media(
    run: RunName,
    key: Annotated[
        str | None, typer.Option(help="Show one that was logged under this name.")
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(min=0, help="The newest one up to this step; the newest of all if left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="File to write it to: PNG, text, or JSON of a table.")
    ] = None,
    as_json: AsJson = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """List the pictures, texts, histograms and tables of a run, or show one of them."""
    from midstep.facts.read.media import MediaReader

    reader = MediaReader(find_run(run, save_dir))
    groups = reader.groups()
    if key is None:
        _print_list(groups, as_json=as_json)
        return
    group, item = _choose(groups, key, step)
    if out is not None:
        _save(reader, group, item, out)
    else:
        _print_item(reader, group, item, as_json=as_json)


def _print_list(groups: Sequence[StoredMedia], *, as_json: bool) -> None:
    if as_json:
        print_json([_describe(group) for group in groups])
        return
    screen = Screen()
    if not groups:
        screen.print_line("nothing was logged besides numbers; run.log(samples=pictures) does it")
        return
    rows = [
        (
            one_line(group.index.key),
            group.index.kind,
            f"{len(group.items):,} of {group.index.logged:,}",
            f"steps {group.items[0].step:,} to {group.items[-1].step:,}" if group.items else "",
        )
        for group in groups
    ]
    screen.print_table([("name", "kind", "kept", ""), *rows], right=(2,))


def _describe(group: StoredMedia) -> dict[str, Any]:
    return {
        "key": group.index.key,
        "kind": group.index.kind,
        "logged": group.index.logged,
        "abandoned": group.abandoned,
        "bytes": group.bytes,
        "items": [{"number": item.number, "step": item.step} for item in group.items],
    }


def _choose(
    groups: Sequence[StoredMedia], key: str, step: int | None
) -> tuple[StoredMedia, MediaItem]:
    named = [group for group in groups if group.index.key == key]
    if not named:
        names = ", ".join(dict.fromkeys(one_line(group.index.key) for group in groups)) or "none"
        raise ConfigError(f"nothing was logged under {key!r}; there are: {names}")
    for group in named:
        items = [item for item in group.items if step is None or item.step <= step]
        if items:
            return group, items[-1]
    raise ConfigError(f"nothing was logged under {key!r} up to step {step}")


def _content(reader: MediaReader, group: StoredMedia, item: MediaItem) -> bytes:
    data = reader.content(group, item.number)
    if data is None:
        raise ConfigError("its file is gone; list what there is with: midstep runs media")
    return data


def _save(reader: MediaReader, group: StoredMedia, item: MediaItem, out: Path) -> None:
    data = (
        strict_json.dumps(item.about).encode()
        if group.index.kind == "histogram"
        else _content(reader, group, item)
    )
    with replacement(out) as file:
        file.write(data)
    Screen().print_line(f"saved {out}, of step {item.step:,}")


def _print_item(reader: MediaReader, group: StoredMedia, item: MediaItem, *, as_json: bool) -> None:
    kind = group.index.kind
    if kind == "image":
        raise ConfigError("a picture needs a file; name one with --out picture.png")
    if as_json:
        print_json({"step": item.step, **_as_json(reader, group, item)})
    elif kind == "text":
        text = _content(reader, group, item).decode("utf-8", "replace")
        VisibleStream(sys.stdout).write(f"{text}\n")
    elif kind == "histogram":
        _print_histogram(item)
    else:
        table = _as_json(reader, group, item)
        cells = [[one_line(str(cell)) for cell in row] for row in table["rows"]]
        Screen().print_table([[one_line(name) for name in table["columns"]], *cells])


def _as_json(reader: MediaReader, group: StoredMedia, item: MediaItem) -> dict[str, Any]:
    if group.index.kind == "histogram":
        return dict(item.about)
    data = _content(reader, group, item)
    if group.index.kind == "text":
        return {"text": data.decode("utf-8", "replace")}
    table = strict_json.loads(data)
    if not isinstance(table, dict) or not {"columns", "rows"} <= table.keys():
        raise ConfigError("its file is damaged")
    return table


def _print_histogram(item: MediaItem) -> None:
    """One line for each pair of bins that is not empty."""
    about, screen = item.about, Screen()
    counts, low, high = about.get("counts", []), about.get("low", 0.0), about.get("high", 0.0)
    pairs = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
    width, most = (high - low) / max(len(pairs), 1), max(pairs, default=0) or 1
    rows = [
        (format_number(low + index * width), f"{count:,}", "█" * round(BAR * count / most))
        for index, count in enumerate(pairs)
        if count
    ]
    screen.print_line(f"step {item.step:,}: {about.get('values', 0):,} values")
    screen.print_table(rows, right=(0, 1))
