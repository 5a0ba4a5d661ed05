"""Facts: what happened in a run, written to append-only files, and everything that reads them.

Each name is imported when it is first used. Writing needs the standard library alone; reading
series needs numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.facts.deletion import delete_run as delete_run
    from midstep.facts.format.paths import ensure_facts_dir as ensure_facts_dir
    from midstep.facts.format.paths import last_attempt as last_attempt
    from midstep.facts.index.run_folders import discover_runs as discover_runs
    from midstep.facts.index.run_frames import load_runs as load_runs
    from midstep.facts.index.run_index import RunIndex as RunIndex
    from midstep.facts.index.run_query import RunQuery as RunQuery
    from midstep.facts.liveness.lease import Lease as Lease
    from midstep.facts.liveness.lease import LoopProgress as LoopProgress
    from midstep.facts.liveness.lease import read_lease as read_lease
    from midstep.facts.liveness.run_liveness import EndState as EndState
    from midstep.facts.liveness.run_liveness import HeartbeatWatch as HeartbeatWatch
    from midstep.facts.liveness.run_liveness import end_state as end_state
    from midstep.facts.read.live_tail import LiveRows as LiveRows
    from midstep.facts.read.live_tail import LiveTail as LiveTail
    from midstep.facts.read.reader import FactsReader as FactsReader
    from midstep.facts.read.series import Series as Series
    from midstep.facts.read.series import SeriesStore as SeriesStore
    from midstep.facts.read.tail import EventRecord as EventRecord
    from midstep.facts.read.tail import FactsTail as FactsTail
    from midstep.facts.read.tail import StepRows as StepRows
    from midstep.facts.write.append_functions import append_jsonl_event as append_jsonl_event
    from midstep.facts.write.append_functions import append_scalars_csv as append_scalars_csv
    from midstep.facts.write.append_functions import build_event_payload as build_event_payload
    from midstep.facts.write.scalars_csv import write_scalars_csv as write_scalars_csv
    from midstep.facts.write.writer import FactsWriter as FactsWriter
    from midstep.facts.write.writer import open_writer as open_writer

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".deletion": "delete_run",
        ".format.paths": "ensure_facts_dir last_attempt",
        ".index.run_folders": "discover_runs",
        ".index.run_frames": "load_runs",
        ".index.run_index": "RunIndex",
        ".index.run_query": "RunQuery",
        ".liveness.run_liveness": "EndState HeartbeatWatch end_state",
        ".liveness.lease": "Lease LoopProgress read_lease",
        ".read.live_tail": "LiveRows LiveTail",
        ".read.reader": "FactsReader",
        ".read.series": "Series SeriesStore",
        ".read.tail": "EventRecord FactsTail StepRows",
        ".write.append_functions": "append_jsonl_event append_scalars_csv build_event_payload",
        ".write.scalars_csv": "write_scalars_csv",
        ".write.writer": "FactsWriter open_writer",
    },
)
