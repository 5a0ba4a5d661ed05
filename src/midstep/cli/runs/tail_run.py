"""`midstep runs tail`: print the last facts of a run, then new ones while it is live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from midstep.cli.output.screen import Screen, print_json
from midstep.cli.output.terminal_escape import one_line
from midstep.cli.output.text_format import format_number, format_time
from midstep.cli.runs.list_runs import (
    DEFAULT_SAVE_DIR,
    RunName,
    SaveDir,
    find_run,
    split_names,
)

if TYPE_CHECKING:
    from midstep.facts import EventRecord, StepRows

POLL_EVERY_S = 0.5
MAX_STEPS_PER_POLL = 20
"""A fast loop makes more steps between two polls than can be read; the others are counted."""
_EVENT_FIELDS = ("status", "kind", "who", "split", "error", "reason", "path")
_EVENT_NUMBERS = ("train_loss", "val_loss", "test_loss", "epoch_time_s")

Entry = dict[str, Any]


def tail(
    run: RunName,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=100_000, help="How many of the last to show.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Continue until the run has ended.")
    ] = True,
    names: Annotated[
        list[str] | None,
        typer.Option(help="Only these scalars: a,b; may be repeated; all if left out."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one line of JSON per record.")
    ] = False,
    save_dir: SaveDir = DEFAULT_SAVE_DIR,
) -> None:
    """Show the last scalars and events of a run, and follow it until it has ended."""
    directory, screen = find_run(run, save_dir), Screen()
    try:
        for entry in follow_run(directory, lines=lines, follow=follow, names=split_names(names)):
            if as_json:
                print_json(entry)
            else:
                screen.print_line(one_line(_format_entry(entry)))
    except KeyboardInterrupt:  # Ctrl-C is the normal way to leave
        return


def follow_run(
    directory: Path, *, lines: int, follow: bool, names: list[str] | None = None
) -> Iterator[Entry]:
    """Yield the last entries of a run, then each new one, then how it ended."""
    from midstep.facts import FactsTail, end_state

    facts = FactsTail(directory)
    entries = read_entries(facts.poll(), names)
    yield from entries[-lines:] if lines else []
    while True:
        # The state is read before the facts. The other way round, facts that are written between
        # the two reads of the last poll would be lost.
        state = end_state(directory)
        yield from _limit_steps(read_entries(facts.poll(), names))
        if state.state not in ("running", "not responding"):
            yield {"state": state.state, "reason": state.reason}
            return
        if not follow:
            return
        time.sleep(POLL_EVERY_S)


def read_entries(records: Iterable[EventRecord | StepRows], names: list[str] | None) -> list[Entry]:
    """Turn records into plain entries: one per event, one per step with all its scalars."""
    entries: list[Entry] = []
    for record in records:
        if hasattr(record, "record"):
            entries.append({"event": record.record})
            continue
        columns = {
            name: column
            for name, column in record.columns.items()
            if names is None or name in names
        }
        if not columns:
            continue
        for row, step in enumerate(record.step.tolist()):
            values = {name: float(column[row]) for name, column in columns.items()}
            before = entries[-1] if entries and "event" not in entries[-1] else None
            # Scalars that were logged in several calls arrive in several rows of one step.
            if before is not None and before["step"] == step:
                before["scalars"] |= values
            else:
                wall = float(record.wall[row])
                entries.append({"step": step, "wall": wall, "scalars": values})
    return entries


def _limit_steps(entries: list[Entry]) -> Iterator[Entry]:
    """Yield every event and only the newest steps; first how many steps are left out."""
    steps = [entry for entry in entries if "step" in entry]
    skipped = {id(entry) for entry in steps[:-MAX_STEPS_PER_POLL]}
    if skipped:
        yield {"skipped": len(skipped)}
    yield from (entry for entry in entries if id(entry) not in skipped)


def _format_entry(entry: Mapping[str, Any]) -> str:
    if "skipped" in entry:
        return f"  … {entry['skipped']:,} steps"
    if "state" in entry:
        return f"{entry['state']}" + (f": {entry['reason']}" if entry["reason"] else "")
    if "event" in entry:
        return _format_event(entry["event"])
    values = " · ".join(f"{name} {format_number(v)}" for name, v in entry["scalars"].items())
    return f"{format_time(entry['wall'])}  step {entry['step']:,}  {values}"


def _format_event(event: Mapping[str, Any]) -> str:
    """Format an event as one line: time, moment, and the fields that people look for."""
    moment = str(event["moment"]).removeprefix("on_").replace("_", " ")
    # The record counts epochs from 0, people from 1.
    firsts = {"epoch": 1, "step": 0}
    parts = [
        f"{name} {event[name] + first:,}"
        for name, first in firsts.items()
        if _is_count(event.get(name))
    ]
    parts += [f"{name} {event[name]}" for name in _EVENT_FIELDS if event.get(name) is not None]
    parts += [
        f"{name} {format_number(event[name])}"
        for name in _EVENT_NUMBERS
        if event.get(name) is not None
    ]
    details = " ".join(" · ".join(parts).split())
    return f"{format_time(event['wall'])}  {moment}  {details}".rstrip()


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
