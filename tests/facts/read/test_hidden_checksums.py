"""Checksums of steps are in the rows, and in no list, chart, stream or export."""

from __future__ import annotations

from pathlib import Path

from midstep.facts import FactsReader, FactsTail, FactsWriter, LiveTail, RunIndex
from midstep.facts.read.wide_table import WideTable


def test_only_a_reader_that_asks_by_name_gets_a_checksum(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with FactsWriter(folder) as facts:
        facts.event("on_start", name="run")
        live = LiveTail(facts)
        for step in (1, 2):
            facts.log(step, loss=1.0 / step, ids_checksum=float(step), weights_checksum=7.0)
        columns = [set(each.columns) for each in live.poll() if hasattr(each, "columns")]
    columns += [set(each.columns) for each in FactsTail(folder).poll() if hasattr(each, "columns")]
    reader = FactsReader(folder)
    index = RunIndex(tmp_path, cache="memory")
    index.refresh()
    (row,) = index.rows().rows
    shown = [*columns, {*reader.names}, {*reader.series()}, {*row.scalars}, {*row.summary}]
    shown.append({*WideTable(folder).columns} - {"step"})
    assert all(names & {"ids_checksum", "weights_checksum"} == set() for names in shown), shown
    assert all("loss" in names for names in shown)
    assert reader.series(["ids_checksum"])["ids_checksum"].low.tolist() == [1.0, 2.0]
