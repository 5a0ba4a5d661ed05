"""Requests and responses of runs: list, one run, curves, files, console, lineage, labels."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from midstep.facts.format.run_files import FileKind
from midstep.facts.index.curves import Axis
from midstep.server.schema_base import In, Number, Out, RunState

ListedState = Literal[RunState, "stopping", "damaged"]
"""`damaged`: the facts cannot be read; `why` has the reason."""
SettingOut = float | int | str | bool | None


class RunOut(Out):
    """One run, live or ended."""

    id: str
    name: str
    directory: str
    """Its directory relative to the outputs folder; never an absolute path."""
    state: ListedState
    live: bool
    """Whether its process is alive, paused or not."""
    reachable: bool
    """Whether commands reach it."""
    why: str | None
    """Why it ended, is damaged, or cannot be reached."""
    step: int | None
    total_steps: int | None
    epoch: int | None
    started_at: float | None
    """Wall time, seconds since 1970."""
    ended_at: float | None
    updated_at: float | None
    """When it last wrote to its directory."""
    attempt: int
    timeline: int
    recipe: str | None
    host: str | None
    seed: int | None
    tags: list[str]
    note: str
    config: dict[str, SettingOut]
    """Settings with dotted names, at most 200."""
    summary: dict[str, Number]
    """The last value of each name, at most 64, with `best_val_loss` and `steps_per_s`."""
    scalars: list[str]
    """Names of its series."""
    parent: str | None
    """The run it was forked from: its id, or the name of its directory where that is not listed."""
    bytes: int | None
    """Size of all its files; null before they were counted."""


class RunDetail(RunOut):
    """One run with its header record."""

    header: dict[str, Any]
    """Config, git commit, host, device, seed."""
    commands: list[str]
    """Names of the commands that it accepts."""


class SpreadOut(Out):
    """Mean and spread of a value over runs."""

    mean: Number
    std: Number | None
    """Sample standard deviation; null for a single run."""
    count: int


class GroupOut(Out):
    """Runs with the same value of the grouping key."""

    value: SettingOut
    count: int
    summary: dict[str, SpreadOut]


class RunColumns(Out):
    """Columns that a table of these runs can show."""

    config: list[str]
    """Settings; those that vary come first."""
    summary: list[str]


class RunList(Out):
    """The requested page of runs."""

    runs: list[RunOut]
    total: int
    """Number of all runs."""
    matching: int
    """Number of runs that match the filter; the page may hold fewer."""
    states: dict[str, int]
    """How many runs are in each state, over all runs."""
    groups: list[GroupOut] | None
    columns: RunColumns
    can_start: bool
    """Whether recipes can be started from here."""
    has_stream: bool
    """Whether `GET /api/v1/stream` without a run sends changes of this list."""


# -- curves ---------------------------------------------------------------------------------------


class PointsOut(Out):
    """One series of one run: exact points, or min/max buckets when there were too many."""

    low: list[Number]
    high: list[Number]
    """Equal to `low` when exact."""
    exact: bool
    count: int
    """Points that it was computed from."""


class CurveOut(PointsOut):
    """One series of one run: exact points, or min/max buckets when there were too many."""

    x: list[Number]
    """Steps, epochs or seconds since the start; of a bucket, the first."""


class SeriesOut(PointsOut):
    """One series: exact points, or min/max buckets when there were too many."""

    step: list[int]


class CurvesOut(Out):
    """One series of several runs; runs without it are left out."""

    name: str
    x: Axis
    curves: dict[str, CurveOut]


# -- labels, files, console, lineage, deletion ----------------------------------------------------


class LabelsIn(In):
    """New tags and note of a run; a field that is left out stays as it is."""

    tags: (
        Annotated[list[Annotated[StrictStr, Field(max_length=64)]], Field(max_length=32)] | None
    ) = None
    note: Annotated[StrictStr, Field(max_length=10_000)] | None = None


class FileOut(Out):
    """One file of a run directory."""

    id: str
    path: str
    """Relative to the run directory."""
    bytes: int
    kind: FileKind
    own: bool
    """Written by midstep, so it is removed when the run is deleted."""
    modified_at: float


class FilesOut(Out):
    """The files of a run directory, links left out."""

    files: list[FileOut]
    bytes: int
    own_bytes: int
    foreign: int
    """Files and links that midstep did not write; a deletion keeps them."""


class ConsoleOut(Out):
    """A part of what a run printed. Of a long output the middle is not kept."""

    text: str
    start: int
    """Byte offset of the text."""
    end: int
    """Offset after the text: the `after` of the next request."""
    size: int
    """Bytes of the whole output."""
    line: int | None
    """Number of its first line, from 1; null if the lines before it were not counted."""
    of: Literal["python"]
    """What C code and subprocesses print is not captured."""


class TimelineOut(Out):
    """A part of a run's history, from its start or from a rewind on."""

    timeline: int
    from_step: int | None
    """Finished steps that it went back to; null for the first timeline."""
    at: float | None
    """Wall time of the rewind."""
    why: str | None
    """Who went back, and the interventions since then."""


class LineageOut(Out):
    """The timelines of a run, its parent and its forks."""

    timelines: list[TimelineOut]
    parent: str | None
    children: list[str]


class DeleteIn(In):
    """The name of the run's directory, as confirmation of the deletion."""

    confirm: Annotated[StrictStr, Field(max_length=4096)]


class DeletedOut(Out):
    """What was deleted and what was kept."""

    removed_bytes: int
    removed_files: int
    kept: list[str]
    """Files in the directory that midstep did not write; they are still there."""


class ScalarsOut(Out):
    """Series of a run."""

    seq: int
    """Facts up to this sequence number are included; the stream continues after it."""
    timeline: int
    """The present timeline."""
    series: dict[str, SeriesOut]


class EventsOut(Out):
    """Lifecycle records in order."""

    events: list[dict[str, Any]]
    seq: int
    more: bool
