"""Wire types of runs: the list, one run, its curves, files, console, lineage and labels."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictStr

from midstep.server.schema_base import In, Number, Out, RunState

ListedState = Literal[RunState, "stopping", "damaged"]
"""`damaged`: its facts cannot be used as they are; `why` says what is wrong."""
SettingOut = float | int | str | bool | None
CurveAxis = Literal["step", "epoch", "time"]
FileKind = Literal["facts", "checkpoint", "figure", "artifact", "console", "config", "other"]


class RunOut(Out):
    """One run, live or ended."""

    id: str
    name: str
    directory: str
    """Its directory relative to the outputs root; never an absolute path."""
    state: ListedState
    live: bool
    """Whether its training goes on, or stands to be looked at."""
    reachable: bool
    """Whether commands arrive."""
    why: str | None
    """Why it ended, is damaged, or cannot be reached."""
    step: int | None
    total_steps: int | None
    epoch: int | None
    started_at: float | None
    """Wall time, seconds since 1970."""
    ended_at: float | None
    updated_at: float | None
    """When it last said anything."""
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
    """The last value of each name, at most 64; `best_val_loss` and `steps_per_s` besides."""
    scalars: list[str]
    """Names of the series it has."""
    parent: str | None
    """The run it was forked from: its id, or the name of its directory where that is not listed."""
    bytes: int | None
    """Of all its files; null before they were counted."""


class RunDetail(RunOut):
    """One run with its header record."""

    header: dict[str, Any]
    """Config, git commit, host, device, seed."""
    commands: list[str]
    """Names of the commands it takes."""


class SpreadOut(Out):
    """How a value varies over runs."""

    mean: Number
    std: Number | None
    """Of a sample; null for a single run."""
    count: int


class GroupOut(Out):
    """Runs that agree in one thing."""

    value: SettingOut
    count: int
    summary: dict[str, SpreadOut]


class RunColumns(Out):
    """What a table of these runs could show."""

    config: list[str]
    """Settings; those that vary come first."""
    summary: list[str]


class RunList(Out):
    """The runs that were asked for."""

    runs: list[RunOut]
    total: int
    """Runs there are."""
    matching: int
    """Of these, how many the filter chose; the page may hold fewer."""
    states: dict[str, int]
    """How many runs are in each state, whatever was asked for."""
    groups: list[GroupOut] | None
    columns: RunColumns
    can_start: bool
    """Whether recipes can be started here."""


# -- curves ---------------------------------------------------------------------------------------


class CurveOut(Out):
    """One series of one run: exact points, or min/max buckets when there were too many."""

    x: list[Number]
    """Steps, epochs or seconds since the run began; of a bucket, its first."""
    low: list[Number]
    high: list[Number]
    """Equal to `low` when exact."""
    exact: bool
    count: int
    """Points that are behind it."""


class CurvesOut(Out):
    """One series of several runs; a run that has no such series is left out."""

    name: str
    x: CurveAxis
    curves: dict[str, CurveOut]


# -- labels, files, console, lineage, deletion ----------------------------------------------------


class LabelsIn(In):
    """What to put on a run; what is left out stays."""

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
    """Written by midstep: goes when the run is deleted."""
    modified_at: float


class FilesOut(Out):
    """The files of a run directory, links left out."""

    files: list[FileOut]
    bytes: int
    own_bytes: int
    foreign: int
    """Files and links that are not the run's own: a deletion leaves them."""


class ConsoleOut(Out):
    """A part of what the run's process printed."""

    text: str
    start: int
    """Byte offset of the text."""
    end: int
    """Where to ask on from."""
    size: int
    """Bytes there are."""


class TimelineOut(Out):
    """A part of a run's history: the beginning, or one that began with a rewind."""

    timeline: int
    from_step: int | None
    """Finished steps it went back to; null for the first."""
    at: float | None
    """Wall time of the rewind."""
    why: str | None
    """What was changed by hand since, and by whom it was taken back."""


class LineageOut(Out):
    """Where a run comes from, and what came of it."""

    timelines: list[TimelineOut]
    parent: str | None
    children: list[str]


class DeleteIn(In):
    """A deletion is confirmed by the name of the run's directory."""

    confirm: Annotated[StrictStr, Field(max_length=4096)]


class DeletedOut(Out):
    """What a deletion removed."""

    removed_bytes: int
    removed_files: int
    kept: list[str]
    """Files in the directory that were not the run's own; they are still there."""


class SeriesOut(Out):
    """One series: exact points, or min/max buckets when there were too many."""

    step: list[int]
    low: list[Number]
    high: list[Number]
    """Equal to `low` when exact."""
    exact: bool
    count: int
    """Points that are behind it."""


class ScalarsOut(Out):
    """Series of a run."""

    seq: int
    """Facts up to this sequence number are in it; the stream goes on behind."""
    timeline: int
    series: dict[str, SeriesOut]


class EventsOut(Out):
    """Lifecycle records in order."""

    events: list[dict[str, Any]]
    seq: int
    more: bool
