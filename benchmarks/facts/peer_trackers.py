"""One tracker, in the environment where this runs: speed of `log`, losses at a kill, many runs.

python -m benchmarks.facts.peer_trackers TRACKER log FOLDER SCALARS
python -m benchmarks.facts.peer_trackers TRACKER die FOLDER
python -m benchmarks.facts.peer_trackers TRACKER store FOLDER RUNS EPOCHS
python -m benchmarks.facts.peer_trackers TRACKER kept|prepare|read FOLDER

`make bench ARGS=peers` makes an environment for each and runs this in it. Nothing reaches a server:
every tracker writes to the disk of this machine. Each is used as its documentation shows; the
settings that make it faster (no system metrics, no console, no git) are on.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["METRICS", "SCALARS", "TRACKERS", "Tracker"]

METRICS = 8
SCALARS = {f"metric_{index}": 0.5 + index for index in range(METRICS)}
WARM_UP = 50
"""Calls of `log` that are not timed."""
NAME = "midstep-bench"


def values(number: int, epoch: int) -> dict[str, float]:
    """Eight metrics of an epoch."""
    return {name: value / (1 + epoch) + number * 1e-6 for name, value in SCALARS.items()}


class Tracker(ABC):
    """What all are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        """Begin a run; gives the function that logs the scalars of a step."""

    @abstractmethod
    def finish(self) -> None:
        """End the run, so that everything is stored."""

    def prepare(self) -> None:  # noqa: B027 - most need none
        """What its own server would do in the background before somebody reads; not timed."""

    @abstractmethod
    def list_runs(self) -> int:
        """List all runs with the last value of each metric, as a table of runs shows them."""

    @abstractmethod
    def read_histories(self) -> int:
        """Read the history of every metric of every run; gives the number of points."""

    @abstractmethod
    def kept_steps(self) -> int:
        """Steps of the only run that are stored whole."""

    def store(self, runs: int, epochs: int) -> None:
        """Store finished runs, in the fastest way that the tracker has."""
        for number in range(runs):
            log = self.begin(f"run-{number:04d}")
            for epoch in range(epochs):
                log(epoch, values(number, epoch))
            self.finish()


class Midstep(Tracker):
    """Ours: facts, and the index over them."""

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        from midstep.facts import FactsWriter

        self._writer = FactsWriter(self.folder / name)
        self._writer.event("on_start", name=name)
        return lambda step, scalars: self._writer.log(step, **scalars)

    def finish(self) -> None:
        self._writer.event("on_train_end", status="finished")
        self._writer.close()

    def store(self, runs: int, epochs: int) -> None:
        from midstep.facts import FactsWriter

        for number in range(runs):
            with FactsWriter(self.folder / f"run-{number:04d}") as writer:
                writer.event("on_start", name=f"run-{number:04d}")
                for epoch in range(epochs):
                    writer.event("on_epoch_end", epoch=epoch, metrics=values(number, epoch))
                writer.event("on_train_end", status="finished")

    def _index(self) -> Any:
        from midstep.facts import RunIndex

        # Kept beside the runs, as the index of a server is kept in the user's cache folder.
        index = RunIndex(self.folder, self.folder.parent / "index.sqlite")
        index.refresh()
        return index

    def list_runs(self) -> int:
        from midstep.facts import RunQuery

        index = self._index()
        rows = index.rows(RunQuery(limit=10_000)).rows
        index.close()
        return sum(1 for row in rows if row.summary["metric_0"] > 0)

    def read_histories(self) -> int:
        index = self._index()
        histories = index.histories()
        index.close()
        return sum(len(each.points(name)[2]) for each in histories.values() for name in SCALARS)

    def kept_steps(self) -> int:
        from midstep.facts import FactsReader

        series = FactsReader(next(self.folder.iterdir())).series()
        return min((len(series[name].step) for name in SCALARS if name in series), default=0)


class TensorBoard(Tracker):
    """The writer of torch; it flushes every two minutes unless it is told to."""

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(
            str(self.folder / name)
        )
        self._writer = writer

        def log(step: int, scalars: Mapping[str, float]) -> None:
            for key, value in scalars.items():
                writer.add_scalar(key, value, step)

        return log

    def finish(self) -> None:
        self._writer.close()

    def _accumulators(self) -> Iterator[Any]:
        module = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
        for folder in sorted(self.folder.iterdir()):
            accumulator = module.EventAccumulator(str(folder), size_guidance={"scalars": 0})
            accumulator.Reload()
            yield accumulator

    def list_runs(self) -> int:
        # It has no list: the last values are at the end of each event file.
        return sum(
            all(each.Scalars(name)[-1].value > 0 for name in SCALARS)
            for each in self._accumulators()
        )

    def read_histories(self) -> int:
        return sum(
            len(each.Scalars(name))
            for each in self._accumulators()
            for name in each.Tags()["scalars"]
        )

    def kept_steps(self) -> int:
        [each] = self._accumulators()
        tags = each.Tags()["scalars"]
        return min((len(each.Scalars(name)) for name in tags), default=0) if tags else 0


class WandB(Tracker):
    """Offline: a process of its own writes a file of records."""

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        wandb = importlib.import_module("wandb")
        settings = wandb.Settings(
            mode="offline",
            console="off",
            x_disable_stats=True,
            x_disable_meta=True,
            disable_git=True,
            silent=True,
        )
        self._run = wandb.init(project=NAME, name=name, dir=str(self.folder), settings=settings)
        return lambda step, scalars: self._run.log(dict(scalars), step=step)

    def finish(self) -> None:
        self._run.finish()

    def _records(self) -> Iterator[tuple[Path, Any]]:
        """Its package has no reader of these files any more: 0.31 reads them in a Go binary."""
        proto = importlib.import_module("wandb.proto.wandb_internal_pb2")
        for path in sorted(self.folder.glob("wandb/offline-run-*/*.wandb")):
            for data in leveldb_records(path.read_bytes()[_WANDB_HEAD:], _WANDB_HEAD):
                record = proto.Record()
                record.ParseFromString(data)
                if record.HasField("history"):
                    yield path, record.history

    def list_runs(self) -> int:
        last: dict[Path, Any] = dict(self._records())
        return sum(any(item.value_json for item in each.item) for each in last.values())

    def read_histories(self) -> int:
        return sum(
            1
            for _, history in self._records()
            for item in history.item
            if (item.key or "".join(item.nested_key)) in SCALARS
            and json.loads(item.value_json) is not None
        )

    def kept_steps(self) -> int:
        return sum(1 for _ in self._records())


_WANDB_HEAD = 7
_BLOCK, _BLOCK_HEAD = 32 << 10, struct.Struct("<IHB")
_FIRST, _LAST = 2, 4


def leveldb_records(data: bytes, offset: int) -> Iterator[bytes]:
    """Whole records of a log in the format of LevelDB, whose first bytes lie at a file offset."""
    at, parts = 0, b""
    while at + _BLOCK_HEAD.size <= len(data):
        left = _BLOCK - (at + offset) % _BLOCK
        if left < _BLOCK_HEAD.size:  # no head fits before the end of the block
            at += left
            continue
        _, size, kind = _BLOCK_HEAD.unpack_from(data, at)
        start = at + _BLOCK_HEAD.size
        at = start + size
        if kind == 0 or at > len(data):  # not written yet, or cut short
            return
        parts = data[start:at] if kind <= _FIRST else parts + data[start:at]
        if kind in (1, _LAST):
            yield parts


class Mlflow(Tracker):
    """A SQLite file as the tracking store; `log` is one call for the eight scalars."""

    def _client(self) -> Any:
        tracking = importlib.import_module("mlflow.tracking")
        return tracking.MlflowClient(f"sqlite:///{self.folder}/mlflow.db")

    def _experiment(self, client: Any) -> str:
        known = client.get_experiment_by_name(NAME)
        if known is not None:
            return str(known.experiment_id)
        return str(client.create_experiment(NAME, artifact_location=str(self.folder)))

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        mlflow = importlib.import_module("mlflow")
        mlflow.set_tracking_uri(f"sqlite:///{self.folder}/mlflow.db")
        self._experiment(self._client())
        mlflow.set_experiment(NAME)
        mlflow.start_run(run_name=name)
        return lambda step, scalars: mlflow.log_metrics(dict(scalars), step=step)

    def finish(self) -> None:
        importlib.import_module("mlflow").end_run()

    def store(self, runs: int, epochs: int) -> None:
        entities = importlib.import_module("mlflow.entities")
        client = self._client()
        experiment = self._experiment(client)
        for number in range(runs):
            run = client.create_run(experiment, run_name=f"run-{number:04d}").info.run_id
            batch = [
                entities.Metric(name, value, 1_700_000_000_000 + epoch, epoch)
                for epoch in range(epochs)
                for name, value in values(number, epoch).items()
            ]
            for start in range(0, len(batch), 1000):  # its limit
                client.log_batch(run, metrics=batch[start : start + 1000])
            client.set_terminated(run)

    def _runs(self) -> tuple[Any, list[Any]]:
        client = self._client()
        experiment, runs, token = self._experiment(client), [], None
        while True:
            page = client.search_runs([experiment], max_results=1000, page_token=token)
            runs += page
            token = page.token
            if not token:
                return client, runs

    def list_runs(self) -> int:
        return sum(run.data.metrics["metric_0"] > 0 for run in self._runs()[1])

    def read_histories(self) -> int:
        client, runs = self._runs()
        return sum(
            len(client.get_metric_history(run.info.run_id, name))
            for run in runs
            for name in SCALARS
        )

    def kept_steps(self) -> int:
        client, runs = self._runs()
        return min(len(client.get_metric_history(runs[0].info.run_id, name)) for name in SCALARS)


class Aim(Tracker):
    """Its own store on RocksDB."""

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        aim = importlib.import_module("aim")
        run = aim.Run(
            repo=str(self.folder),
            experiment=NAME,
            system_tracking_interval=None,
            capture_terminal_logs=False,
            log_system_params=False,
        )
        run.name = name
        self._run = run
        return lambda step, scalars: run.track(dict(scalars), step=step)

    def finish(self) -> None:
        self._run.close()

    def prepare(self) -> None:
        manager = importlib.import_module("aim.sdk.index_manager").RepoIndexManager
        repository = self._repository()
        index = manager.get_index_manager(repository)
        for run in repository.list_all_runs():
            index.index(run)

    def _repository(self) -> Any:
        return importlib.import_module("aim").Repo(str(self.folder))

    def list_runs(self) -> int:
        return sum(
            len(list(run.metrics())) == METRICS and run.name != ""
            for run in self._repository().iter_runs()
        )

    def read_histories(self) -> int:
        return sum(
            len(metric.values.sparse_numpy()[1])
            for run in self._repository().iter_runs()
            for metric in run.metrics()
        )

    def kept_steps(self) -> int:
        lengths = [
            len(metric.values.sparse_numpy()[1])
            for run in self._repository().iter_runs()
            for metric in run.metrics()
        ]
        return min(lengths, default=0) if len(lengths) == METRICS else 0


class Trackio(Tracker):
    """A SQLite file, written by a process of its own."""

    def begin(self, name: str) -> Callable[[int, Mapping[str, float]], object]:
        trackio = importlib.import_module("trackio")
        self._run = trackio.init(project=NAME, name=name, embed=False)
        return lambda step, scalars: trackio.log(dict(scalars), step=step)

    def finish(self) -> None:
        importlib.import_module("trackio").finish()

    def store(self, runs: int, epochs: int) -> None:
        storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
        for number in range(runs):
            storage.bulk_log(
                project=NAME,
                run=f"run-{number:04d}",
                metrics_list=[values(number, epoch) for epoch in range(epochs)],
                steps=list(range(epochs)),
            )

    def _storage(self) -> Any:
        return importlib.import_module("trackio.sqlite_storage").SQLiteStorage

    def list_runs(self) -> int:
        storage = self._storage()
        return sum(
            storage.get_logs(NAME, run)[-1]["metric_0"] > 0 for run in storage.get_runs(NAME)
        )

    def read_histories(self) -> int:
        storage = self._storage()
        return sum(
            name in row
            for run in storage.get_runs(NAME)
            for row in storage.get_logs(NAME, run)
            for name in SCALARS
        )

    def kept_steps(self) -> int:
        storage = self._storage()
        runs = storage.get_runs(NAME)
        return len(storage.get_logs(NAME, runs[0])) if runs else 0


TRACKERS: dict[str, type[Tracker]] = {
    "midstep": Midstep,
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "mlflow": Mlflow,
    "aim": Aim,
    "trackio": Trackio,
}


def time_log(tracker: Tracker, calls: int) -> dict[str, float]:
    """Microseconds of a call of `log`, one by one."""
    log = tracker.begin("timed")
    for step in range(WARM_UP):
        log(step, SCALARS)
    times = []
    for step in range(WARM_UP, WARM_UP + calls):
        began = time.perf_counter_ns()
        log(step, SCALARS)
        times.append((time.perf_counter_ns() - began) / 1000)
    tracker.finish()
    cuts = statistics.quantiles(times, n=100)
    return {"p50_us": cuts[49], "p5_us": cuts[4], "p99_us": cuts[98]}


def log_until_killed(tracker: Tracker) -> None:
    """Log for ever; a line on stdout acknowledges each call that returned."""
    log = tracker.begin("killed")
    out = os.dup(1)
    for step in range(10**9):
        log(step, SCALARS)
        os.write(out, b"%d\n" % (step + 1))


def read_many(tracker: Tracker) -> dict[str, float]:
    """Seconds to list, and to read the histories: first and again, in one process."""
    result: dict[str, float] = {}
    for what, call in (("list", tracker.list_runs), ("histories", tracker.read_histories)):
        for suffix in ("first", "again"):
            began = time.perf_counter()
            result[f"{what}_n"] = call()
            result[f"{what}_{suffix}_s"] = time.perf_counter() - began
    return result


def main(name: str, task: str, folder: str, *numbers: str) -> None:
    """Do a task; its result is one JSON line, the last on stdout."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    tracker, counts = TRACKERS[name](root), [int(each) for each in numbers]
    result: Any = None
    if task == "log":
        result = time_log(tracker, *counts)
    elif task == "die":
        log_until_killed(tracker)
    elif task == "store":
        tracker.store(*counts)
    elif task == "kept":
        tracker.prepare()
        result = tracker.kept_steps()
    elif task == "prepare":
        tracker.prepare()
    else:
        result = read_many(tracker)
    print(f"\n{json.dumps(result)}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
