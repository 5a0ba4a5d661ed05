"""Speed of many runs: the list of a thousand, their histories, and long curves over each other."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.facts.bench_facts import make_run
from benchmarks.figures import Figure
from midstep.core.ids import new_run_id
from midstep.facts import discover_runs, load_runs
from midstep.facts.format.event_lines import EventHeader, encode_fields, encode_line
from midstep.facts.format.paths import ensure_facts_dir, events_path
from midstep.facts.index.run_index import RunIndex
from midstep.facts.index.run_query import RunQuery
from midstep.server.responses import json_bytes

BAR_COLD_S = 1.0
BAR_WARM_S = 0.1
BAR_HISTORIES_S = 0.5
BAR_FRAMES_S = 1.0
RUNS = 1000
EPOCHS = 50
CURVES = 50
POINTS = 100_000


def make_runs(root: Path, runs: int, epochs: int, steps_per_epoch: int = 10) -> None:
    """Finished runs with the bytes that a session writes: two records an epoch, rows of steps."""
    for number in range(runs):
        folder = root / f"run_20260101T{number:06d}Z_bench"
        make_run(folder, epochs * steps_per_epoch, ("loss", "lr", "grad_norm"))
        run_id, lines = new_run_id(), []
        records = _records(number, epochs, steps_per_epoch)
        for seq, (moment, fields) in enumerate(records, start=1):
            head = EventHeader(1, 0, 1.7e9 + seq, float(seq), moment, run_id, 0)
            lines.append(encode_line(seq, head, encode_fields(fields)))
        events_path(ensure_facts_dir(folder).parent, 0, 0).write_bytes(b"".join(lines))


def _records(number: int, epochs: int, steps: int) -> list[tuple[str, dict[str, object]]]:
    config = {"recipe": "bcl", "lr": 10.0 ** -(number % 5), "seed": number, "hidden": 64}
    start = {"name": f"bench {number}", "config": config, "seed": number, "host": "bench"}
    found: list[tuple[str, dict[str, object]]] = [("on_start", {**start, "argv": ["x"] * 8})]
    for epoch in range(epochs):
        place = {"epoch": epoch, "step": (epoch + 1) * steps}
        loss = {"val_loss": 1 / (epoch + 1), "metrics": {"l1": 0.137, "accuracy": 0.9}}
        figures = {"epoch_time_s": 0.17, "throughput": 26237.0, "max_memory_mib": 377.1}
        found.append(("on_validation_end", {**place, "split": "val", **loss}))
        found.append(
            ("on_epoch_end", {**place, "split": "train", "train_loss": 0.1, **loss, **figures})
        )
    found.append(("on_train_end", {"status": "finished", "step": epochs * steps}))
    return found


def listed(index: RunIndex, limit: int = RUNS) -> int:
    """Look at the disk and make the whole answer to GET /runs; gives back its bytes."""
    index.refresh()
    page = index.rows(RunQuery(limit=limit))
    listed = {"runs": [row.as_wire() for row in page.rows], "states": page.states}
    columns = {"config": page.config_columns, "summary": page.summary_columns}
    return len(json_bytes({**listed, "total": page.total, "columns": columns}))


class Took(NamedTuple):
    """How long a call took."""

    wall_s: float
    cpu_s: float
    """Of this process: what a busy machine does not add to."""


def seconds(what: Callable[[], object]) -> Took:
    """Time of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    what()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def _figure(name: str, times: list[Took], bar: float | None = None, note: str = "") -> Figure:
    walls = [each.wall_s for each in times]
    cpu = f"{statistics.median(each.cpu_s for each in times):.2g} s of CPU"
    return Figure(
        name=name,
        value=statistics.median(walls),
        unit="s",
        low=min(walls),
        high=max(walls),
        bar=bar,
        note=f"{cpu}; {note}" if note else cpu,
    )


def figures() -> list[Figure]:
    """All figures of this module."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [*_list_figures(root), *_curve_figures(root)]


def _list_figures(folder: Path) -> list[Figure]:
    root, cache = folder / "many", folder / "index.sqlite"
    make_runs(root, RUNS, EPOCHS)
    cold = [seconds(lambda: listed(RunIndex(root, "memory"))) for _ in range(5)]
    index = RunIndex(root, cache)
    listed(index)
    warm = [seconds(lambda: listed(index)) for _ in range(9)]
    page = [seconds(lambda: listed(index, limit=100)) for _ in range(9)]
    first = [seconds(index.histories)]
    histories = [seconds(index.histories) for _ in range(5)]
    index.close()
    started = [seconds(lambda: listed(RunIndex(root, cache))) for _ in range(5)]
    again = [seconds(lambda: _histories_after_a_start(root, cache)) for _ in range(5)]
    command = [seconds(lambda: _command(root, folder)) for _ in range(3)]
    run_dirs = discover_runs(sweep_dir=root)
    frames_first = [seconds(lambda: _load_frames(run_dirs))]
    frames = [seconds(lambda: _load_frames(run_dirs)) for _ in range(5)]
    runs = f"{RUNS:,} runs of {EPOCHS} epochs"
    return [
        _figure(f"list of {runs}, no index", cold, BAR_COLD_S, "facts read, whole JSON answer"),
        _figure(f"list of {runs}, server just started", started, BAR_COLD_S, "index on disk"),
        _figure(f"list of {runs}, warm", warm, BAR_WARM_S, "whole JSON answer"),
        _figure(f"page of 100 of {runs}, warm", page, BAR_WARM_S),
        _figure(f"histories of {runs}, first time", first, note="read from the events"),
        _figure(f"histories of {runs}", histories, BAR_HISTORIES_S),
        _figure(f"histories of {runs}, after a start", again, note="list and histories"),
        _figure(f"load_runs of {runs}, first time", frames_first, note="read from the events"),
        _figure(f"load_runs of {runs}, warm", frames, BAR_FRAMES_S, "DataFrames, one per run"),
        _figure(f"midstep runs ls, {runs}", command, note="a process of its own, index on disk"),
    ]


def _load_frames(run_dirs: list[Path]) -> None:
    runs_df, per_epoch, _ = load_runs(run_dirs)
    if (len(runs_df), len(per_epoch)) != (RUNS, RUNS):
        raise AssertionError(f"runs are left out: {runs_df.attrs['excluded'][:3]}")


def _histories_after_a_start(root: Path, cache: Path) -> None:
    index = RunIndex(root, cache)
    index.refresh()
    index.histories()


def _command(root: Path, folder: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, "-m", "midstep", "runs", "ls", "--save-dir", str(root)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)


def _curve_figures(folder: Path) -> list[Figure]:
    root = folder / "long"
    for number in range(CURVES):
        make_run(root / f"run_{number:02d}", POINTS, ("loss", "lr", "grad_norm", "step_time_s"))
    index = RunIndex(root, "memory")
    index.refresh()
    ids = [row.id for row in index.rows().rows]

    def draw() -> None:
        found = index.curves(ids, "loss", points=1000)
        json_bytes({run: [curve.x.tolist(), curve.low.tolist()] for run, curve in found.items()})

    first, warm = [seconds(draw)], [seconds(draw) for _ in range(9)]
    what = f"{CURVES} curves of {POINTS:,} points"
    return [
        _figure(f"{what}, first view", first, 2.0, "1,000 buckets each"),
        _figure(f"{what}, again", warm, 0.25, "what a page that follows asks for"),
    ]
