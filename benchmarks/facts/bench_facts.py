"""Speed of the facts: `log`, opening a long log, and the first view of ten million points."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import Figure
from midstep.facts import FactsTail, FactsWriter, SeriesStore
from midstep.facts.format.paths import ensure_facts_dir, steps_path
from midstep.facts.format.step_frames import (
    SEAL_EVERY_BYTES,
    FileHeader,
    Layout,
    file_header,
    layout_frame,
    seal_frame,
)
from midstep.facts.read.step_columns import row_dtype

BAR_LOG_US = 5.0
BAR_OPEN_S = 3.0
BAR_VIEW_S = 2.0


def log_microseconds(records: int = 200_000, scalars: int = 8) -> dict[str, float]:
    """Time of one `log` with `scalars` floats: p50, p99 and the spread of p50 over ten parts."""
    values = {f"metric{index}": float(index) for index in range(scalars)}
    spent = np.empty(records)
    with tempfile.TemporaryDirectory() as folder, FactsWriter(folder) as facts:
        for step in range(records):
            start = time.perf_counter_ns()
            facts.log(step, **values)
            spent[step] = time.perf_counter_ns() - start
        dropped = facts.dropped
    spent /= 1000
    parts = [float(np.median(part)) for part in np.array_split(spent, 10)]
    return {
        "p50_us": float(np.median(spent)),
        "p99_us": float(np.quantile(spent, 0.99)),
        "p50_spread_us": max(parts) - min(parts),
        "dropped": float(dropped),
    }


def make_run(run_dir: Path, rows: int, names: tuple[str, ...] = ("loss",)) -> None:
    """Write a run of `rows` rows with the writer's own bytes, but without a call for each."""
    from zlib import crc32

    layout = Layout(1, names)
    ensure_facts_dir(run_dir)
    per_block = SEAL_EVERY_BYTES // layout.row_bytes
    dtype, draw = row_dtype(len(names)), np.random.default_rng(0)
    with steps_path(run_dir, 0, 1).open("wb") as file:
        file.write(file_header(FileHeader("0123456789ab", 1, 0)) + layout_frame(layout))
        start, covered = 64, crc32(layout_frame(layout))
        for first in range(0, rows, per_block):
            block = np.zeros(min(per_block, rows - first), dtype)
            block["size"], block["what"] = layout.row_bytes, 1
            block["seq"] = block["step"] = np.arange(first + 1, first + 1 + len(block))
            block["values"] = draw.normal(size=(len(block), len(names)))
            data = bytearray(block.tobytes())
            for at in range(0, len(data), layout.row_bytes):
                body = memoryview(data)[at + 4 : at + layout.row_bytes]
                data[at : at + 4] = crc32(body).to_bytes(4, "little")
            file.write(data + seal_frame(crc32(data, covered), start, first + len(block)))
            start, covered = file.tell(), 0


def open_seconds(records: int = 1_000_000, repeats: int = 3) -> dict[str, float]:
    """Time until a writer has opened, and a tail has read, a log of that many records."""
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), records, tuple(f"metric{index}" for index in range(8)))
        writer, tail = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            facts = FactsWriter(folder)
            writer.append(time.perf_counter() - start)
            assert facts.seq == records
            facts.close()
            start = time.perf_counter()
            assert FactsTail(folder).poll()[-1].last_seq == records
            tail.append(time.perf_counter() - start)
    return {
        "writer_s": statistics.median(writer),
        "tail_s": statistics.median(tail),
        "spread_s": max(max(writer) - min(writer), max(tail) - min(tail)),
    }


def alternating_open_seconds(records: int = 1_000_000) -> dict[str, float]:
    """The same with two layouts that take turns: the worst case of a reader."""
    with tempfile.TemporaryDirectory() as folder:
        with FactsWriter(folder) as facts:
            for step in range(records // 2):
                facts.log(step, loss=0.5)
                facts.log(step, lr=0.5, norm=1.0)
        start = time.perf_counter()
        FactsWriter(folder).close()
        opened = time.perf_counter()
        store = SeriesStore(folder)
        store.refresh()
        store.series("loss")
        return {"writer_s": opened - start, "view_s": time.perf_counter() - opened}


def first_view_seconds(points: int = 10_000_000, repeats: int = 3) -> dict[str, float]:
    """Time from nothing in memory to 2,000 min/max buckets of a series of that many points."""
    with tempfile.TemporaryDirectory() as folder:
        make_run(Path(folder), points)
        first, again = [], []
        for _ in range(repeats):
            start = time.perf_counter()
            store = SeriesStore(folder)
            store.refresh()
            found = store.series("loss", points=2000)
            first.append(time.perf_counter() - start)
            assert (found.count, len(found.step)) == (points, 2000)
            start = time.perf_counter()
            store.refresh()
            store.series("loss", points=2000)
            again.append(time.perf_counter() - start)
    return {
        "first_s": statistics.median(first),
        "again_s": statistics.median(again),
        "spread_s": max(first) - min(first),
    }


def figures() -> list[Figure]:
    """All figures of this module."""
    log, opened, turns, view = (
        log_microseconds(),
        open_seconds(),
        alternating_open_seconds(),
        first_view_seconds(),
    )
    spread = log["p50_spread_us"] / 2
    return [
        Figure(
            name="log of 8 scalars, p50",
            value=log["p50_us"],
            unit="µs",
            low=log["p50_us"] - spread,
            high=log["p50_us"] + spread,
            bar=BAR_LOG_US,
            note=f"p99 {log['p99_us']:.3g} µs, {log['dropped']:.0f} dropped",
        ),
        Figure(
            name="open a log of 1 M records",
            value=opened["writer_s"],
            unit="s",
            bar=BAR_OPEN_S,
            note=f"read it whole: {opened['tail_s']:.2f} s; spread {opened['spread_s']:.2f} s",
        ),
        Figure(
            name="open 1 M records of two layouts in turn",
            value=turns["writer_s"],
            unit="s",
            bar=BAR_OPEN_S,
            note=f"first view {turns['view_s']:.2f} s",
        ),
        Figure(
            name="first view of 10 M points",
            value=view["first_s"],
            unit="s",
            bar=BAR_VIEW_S,
            note=f"again {view['again_s']:.3f} s; spread {view['spread_s']:.2f} s",
        ),
    ]
