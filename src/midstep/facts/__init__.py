"""Facts: what happened in a run, append-only on disk, and everything that reads it back.

Writing needs the standard library alone; names that need numpy are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names
from midstep.facts.discover import discover_runs
from midstep.facts.ends import EndState, LeaseWatch, end_state
from midstep.facts.lease import Lease, Progress, read_lease
from midstep.facts.payloads import append_jsonl_event, append_scalars_csv, build_event_payload
from midstep.facts.places import ensure_facts_dir, last_attempt
from midstep.facts.scalars_csv import write_scalars_csv
from midstep.facts.writer import FactsWriter, open_writer

if TYPE_CHECKING:
    from midstep.facts.deletion import delete_run
    from midstep.facts.index import RunIndex
    from midstep.facts.own_tail import OwnTail, ToldRows
    from midstep.facts.reader import FactsReader
    from midstep.facts.run_query import RunQuery
    from midstep.facts.series import Series, SeriesStore
    from midstep.facts.tail import EventRecord, FactsTail, StepRows

__all__ = [
    "EndState",
    "EventRecord",
    "FactsReader",
    "FactsTail",
    "FactsWriter",
    "Lease",
    "LeaseWatch",
    "OwnTail",
    "Progress",
    "RunIndex",
    "RunQuery",
    "Series",
    "SeriesStore",
    "StepRows",
    "ToldRows",
    "append_jsonl_event",
    "append_scalars_csv",
    "build_event_payload",
    "delete_run",
    "discover_runs",
    "end_state",
    "ensure_facts_dir",
    "last_attempt",
    "open_writer",
    "read_lease",
    "write_scalars_csv",
]

_HOME = {
    "EventRecord": ".tail",
    "FactsReader": ".reader",
    "FactsTail": ".tail",
    "OwnTail": ".own_tail",
    "RunIndex": ".index",
    "RunQuery": ".run_query",
    "Series": ".series",
    "SeriesStore": ".series",
    "StepRows": ".tail",
    "ToldRows": ".own_tail",
    "delete_run": ".deletion",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
