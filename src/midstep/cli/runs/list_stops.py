"""`midstep runs stops`: where a run stopped and why, and what was kept of each stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.cli.output.text_format import (
    format_bytes,
    format_duration,
    format_number,
    format_time,
)
from midstep.cli.runs.list_runs import DEFAULT_SAVE_DIR, RunName, SaveDir, find_run

HEADINGS = ("stop", "step", "at", "why", "value", "lasted", "kept")


def stops(run: RunName, save_dir: SaveDir = DEFAULT_SAVE_DIR, as_json: AsJson = False) -> None:
    """List the stops of a run, its end and its checkpoints, with what was kept of them.

    What was kept of a stop is in artifacts/evidence/STOP.zip of the run directory.
    """
    from midstep.server.runs.run_evidence import describe_evidence

    kept = describe_evidence(find_run(run, save_dir))
    if as_json:
        print_json(kept)
        return
    screen = Screen()
    listed = [*kept["stops"], *([kept["end"]] if kept["end"] else [])]
    if listed:
        screen.print_table([HEADINGS, *map(_row, listed)], right={1, 4, 5})
    else:
        screen.print_line("the run was never paused, and no end was kept")
    for line in _summary(kept):
        screen.print_line(line, style="dim")


def _row(stop: Mapping[str, Any]) -> tuple[str, ...]:
    hit = stop["breakpoint"]
    value = "" if hit is None or hit["value"] is None else format_number(hit["value"])
    lasted = "" if stop["lasted_s"] is None else format_duration(stop["lasted_s"])
    return (
        stop["id"],
        f"{stop['step']:,}",
        format_time(stop["at"]),
        _why(stop),
        value,
        lasted,
        _what(stop),
    )


def _why(stop: Mapping[str, Any]) -> str:
    words = str(stop["cause"]).replace("_", " ")
    if stop["breakpoint"] is not None:
        words = f"breakpoint {stop['breakpoint']['breakpoint']}: {stop['breakpoint']['condition']}"
    elif stop["reason"]:
        words = f"{words}: {stop['reason'].splitlines()[0]}"
    elif stop["who"]:
        words = f"{words} by {stop['who']}"
    return words if stop["current"] else f"{words} (rewound)"


def _what(stop: Mapping[str, Any]) -> str:
    if not stop["kept"]:
        return "nothing"
    samples = "" if stop["samples"] is None else f"{stop['samples']} samples, "
    data = "".join(f"{key}, " for key in stop["step_data"])
    return f"{samples}{data}{format_bytes(stop['bytes'])}"


def _summary(kept: Mapping[str, Any]) -> list[str]:
    checkpoints = ", ".join(
        f"{each['step']:,}{' (best)' if each['best'] else ''}" for each in kept["checkpoints"]
    )
    lines = [f"checkpoints: {checkpoints or 'none'}"]
    if kept["console_bytes"]:
        lines.append(f"console: {format_bytes(kept['console_bytes'])}; midstep runs console RUN")
    return lines
