"""`midstep runs tail`: the last facts of a run, and those that come while it is live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.runs import RUNS, RunName, SaveDir, find_run
from midstep.cli.screen import Screen
from midstep.cli.wording import number_words, time_words
from midstep.core import strict_json

if TYPE_CHECKING:
    from midstep.facts import EventRecord, StepRows

__all__ = ["tail"]

LOOK_EVERY_S = 0.5
MOST_AT_ONCE = 20
"""Steps shown of those that came between two looks; of a fast loop the others are counted."""
_SHOWN = ("status", "kind", "who", "split", "error", "reason", "path")
_FIGURES = ("train_loss", "val_loss", "test_loss", "epoch_time_s")

Entry = dict[str, Any]


def tail(
    run: RunName,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Go on until the run has ended.")
    ] = True,
    names: Annotated[
        list[str] | None,
        typer.Option("--names", help="Only these scalars: a,b or given again; all if left out."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON a record.")] = False,
    save_dir: SaveDir = RUNS,
) -> None:
    """Show the last scalars and events of a run, and follow it until it has ended.

    Examples: [bold]midstep runs tail k3v9[/bold] ·
    [bold]midstep runs tail k3v9 --lines 50 --names loss,val_loss --no-follow[/bold]
    """
    asked = None if not names else {name for part in names for name in part.split(",") if name}
    directory, screen = find_run(run, save_dir), Screen()
    try:
        for entry in followed(directory, lines=lines, follow=follow, names=asked):
            if as_json:
                typer.echo(strict_json.dumps(entry))
            else:
                screen.say(_words(entry))
    except KeyboardInterrupt:  # the way to leave it
        return


def followed(
    directory: Path, *, lines: int, follow: bool, names: set[str] | None = None
) -> Iterator[Entry]:
    """The last entries of a run, then each that comes, then how it ended."""
    from midstep.facts import FactsTail, end_state

    facts = FactsTail(directory)
    yield from _last(entries(facts.poll(), names), lines)
    while True:
        state = end_state(directory)  # before the last look: what came until then is shown
        found = entries(facts.poll(), names)
        yield from _bounded(found)
        if state.state not in ("running", "not responding"):
            yield {"state": state.state, "reason": state.reason}
            return
        if not follow:
            return
        time.sleep(LOOK_EVERY_S)


def entries(records: Iterable[EventRecord | StepRows], names: set[str] | None) -> list[Entry]:
    """Records as plain entries: events, and the scalars of one step together."""
    found: list[Entry] = []
    for record in records:
        if hasattr(record, "record"):
            found.append({"event": record.record})
            continue
        chosen = {
            name: values
            for name, values in record.columns.items()
            if names is None or name in names
        }
        if not chosen:
            continue
        for place, step in enumerate(record.step.tolist()):
            values = {name: float(column[place]) for name, column in chosen.items()}
            before = found[-1] if found and "event" not in found[-1] else None
            if before is not None and before["step"] == step:
                before["scalars"] |= values
            else:
                wall = float(record.wall[place])
                found.append({"step": step, "wall": wall, "scalars": values})
    return found


def _last(found: list[Entry], lines: int) -> list[Entry]:
    return found[-lines:] if lines else []


def _bounded(found: list[Entry]) -> Iterator[Entry]:
    """Every event, and of the steps between two looks no more than can be read."""
    steps = [entry for entry in found if "step" in entry]
    skipped = {id(entry) for entry in steps[:-MOST_AT_ONCE]}
    if skipped:
        yield {"skipped": len(skipped)}
    yield from (entry for entry in found if id(entry) not in skipped)


def _words(entry: Mapping[str, Any]) -> str:
    if "skipped" in entry:
        return f"  … {entry['skipped']:,} steps"
    if "state" in entry:
        return f"{entry['state']}" + (f": {entry['reason']}" if entry["reason"] else "")
    if "event" in entry:
        return _event_words(entry["event"])
    values = " · ".join(f"{name} {number_words(v)}" for name, v in entry["scalars"].items())
    return f"{time_words(entry['wall'])}  step {entry['step']:,}  {values}"


def _event_words(event: Mapping[str, Any]) -> str:
    """An event in one line: what, where, and the few fields that people look for."""
    what = str(event["moment"]).removeprefix("on_").replace("_", " ")
    parts = [f"{name} {event[name]:,}" for name in ("epoch", "step") if _is_whole(event.get(name))]
    parts += [f"{name} {event[name]}" for name in _SHOWN if event.get(name) is not None]
    parts += [
        f"{name} {number_words(event[name])}" for name in _FIGURES if event.get(name) is not None
    ]
    told = " ".join(" · ".join(parts).split())
    return f"{time_words(event['wall'])}  {what}  {told}".rstrip()


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
