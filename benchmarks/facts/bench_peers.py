"""Facts beside trackers of others: `log`, losses at a kill, lists and histories of many runs.

`make bench ARGS=peers`, about 40 minutes. `PEERS_RUNS=20 PEERS_CALLS=200` tries it at a small size;
`PEERS_ONLY=midstep,trackio` measures some. Each tracker has an environment of its own under
`.bench-env/`, with a pinned version, and each task is a process of its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.environments import NoEnvironment, environment
from benchmarks.facts.peer_trackers import METRICS, TRACKERS
from benchmarks.figures import Figure

__all__ = ["PACKAGES", "figures"]

PACKAGES = {
    "tensorboard": "tensorboard==2.21.0",
    "wandb": "wandb==0.31.0",
    "mlflow": "mlflow==3.17.2",
    "aim": "aim==3.29.1",
    "trackio": "trackio==0.43.0",
}
RUNS = int(os.environ.get("PEERS_RUNS", "1000"))
CALLS = int(os.environ.get("PEERS_CALLS", "2000"))
ONLY = tuple(filter(None, os.environ.get("PEERS_ONLY", "").split(",")))
EPOCHS = 50
KILL_AFTER = 200
"""Acknowledged calls after which the process is killed."""
LIMIT_S = 3600
HERE = Path(__file__).resolve().parents[2]
Result = dict[str, Any]


def figures() -> Iterator[Figure]:
    """All figures of this module; the bars compare ours with the others, so they come last."""
    results: dict[str, Result] = {}
    for name in TRACKERS:
        if ONLY and name not in ONLY:
            continue
        try:
            results[name] = _measure(name)
        except (NoEnvironment, RuntimeError) as error:
            yield _not_measured(name, str(error))
        else:
            yield from _rows(name, results[name])
    if "midstep" in results and len(results) > 1:
        yield from _bars(results.pop("midstep"), results)


def _measure(name: str) -> Result:
    """What one tracker does, each task in a process and a folder of its own."""
    python = environment(name, PACKAGES[name]) if name in PACKAGES else Path(sys.executable)
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        logged = _task(python, name, "log", home / "log", CALLS)
        acknowledged = _kill(python, name, home / "die")
        kept = _task(python, name, "kept", home / "die")
        _task(python, name, "store", home / "many", RUNS, EPOCHS)
        _task(python, name, "prepare", home / "many")
        read = _task(python, name, "read", home / "many")
    expected = {"list_n": RUNS, "histories_n": RUNS * EPOCHS * METRICS}
    if {key: read[key] for key in expected} != expected:
        raise RuntimeError(f"it read {read}, expected {expected}: no fair comparison")
    return {**logged, **read, "acknowledged": acknowledged, "lost": max(0, acknowledged - kept)}


def _command(python: Path, name: str, task: str, folder: Path, *numbers: int) -> list[str]:
    module = ["-m", "benchmarks.facts.peer_trackers"]
    return [str(python), *module, name, task, str(folder), *map(str, numbers)]


def _environment(folder: Path) -> dict[str, str]:
    """No server, no telemetry, and every cache in the folder of the task."""
    home = str(folder.with_name(f"home-{folder.name}"))
    return {
        **os.environ,
        "HOME": home,
        "XDG_CACHE_HOME": home,
        "TRACKIO_DIR": str(folder),
        "HF_HOME": home,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "AIM_UI_TELEMETRY_ENABLED": "0",
    }


def _task(python: Path, name: str, task: str, folder: Path, *numbers: int) -> Any:
    """The result of a task."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            _command(python, name, task, folder, *numbers),
            cwd=HERE,
            env=_environment(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{task} took more than {LIMIT_S} s") from late
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        errors = done.stderr.strip().splitlines() or ["no output"]
        raise RuntimeError(f"{task} ended with {done.returncode}: {errors[-1].strip()}")
    return json.loads(lines[-1])


def _kill(python: Path, name: str, folder: Path) -> int:
    """Kill the whole process group while it logs; gives the calls that it acknowledged."""
    folder.mkdir(parents=True, exist_ok=True)
    acknowledged = 0
    with subprocess.Popen(
        _command(python, name, "die", folder),
        cwd=HERE,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip().isdigit():
                acknowledged = int(line)
            if acknowledged == KILL_AFTER:
                # Helper processes go too, as they do when a machine or a job is killed.
                os.killpg(process.pid, signal.SIGKILL)
    if acknowledged < KILL_AFTER:
        raise RuntimeError(f"it ended by itself after {acknowledged} calls of log")
    return acknowledged


def _rows(name: str, result: Result) -> Iterator[Figure]:
    who = PACKAGES.get(name, "midstep").replace("==", " ")
    yield Figure(
        name=f"{who}: log of {METRICS} scalars",
        value=result["p50_us"],
        unit="µs",
        low=result["p5_us"],
        high=result["p99_us"],
        note="median, 5 % and 99 %",
    )
    yield Figure(
        name=f"{who}: acknowledged records lost at kill -9",
        value=result["lost"],
        unit="records",
        note=f"of {result['acknowledged']}",
    )
    runs = f"{RUNS:,} runs of {EPOCHS} epochs × {METRICS} metrics"
    for what, words in (("list", "list of"), ("histories", "histories of")):
        yield Figure(
            name=f"{who}: {words} {runs}",
            value=result[f"{what}_again_s"],
            unit="s",
            note=f"first time, imports included, {result[f'{what}_first_s']:.3g} s",
        )


def _bars(ours: Result, others: dict[str, Result]) -> Iterator[Figure]:
    """Ours against the best of the others."""
    safe = {name: each["p50_us"] for name, each in others.items() if each["lost"] == 0}
    if safe:
        yield _ratio("log against the fastest that loses nothing", ours["p50_us"], safe)
    yield Figure(
        name="midstep: acknowledged records lost", value=ours["lost"], unit="records", bar=0
    )
    for what in ("list", "histories"):
        for suffix in ("first", "again"):
            key = f"{what}_{suffix}_s"
            times = {name: each[key] for name, each in others.items()}
            yield _ratio(f"{what}, {suffix}, against the fastest", ours[key], times)


def _ratio(what: str, ours: float, others: dict[str, float]) -> Figure:
    best = min(others, key=lambda name: others[name])
    return Figure(
        name=f"midstep: {what}",
        value=ours / others[best],
        unit="×",
        bar=1.0,
        note=f"{best}; below 1 is faster",
    )


def _not_measured(name: str, why: str) -> Figure:
    """A missed bar: without one of them, ours is not compared with the best of all."""
    note = f"not measured: {why.strip().splitlines()[-1]}".replace("|", "/")
    who = PACKAGES.get(name, name).replace("==", " ")
    return Figure(name=f"{who}: measured", value=0, unit="", bar=1, at_least=True, note=note)
