"""The promise of I1: every acknowledged fact is on disk exactly once, numbers contiguous.

`assert_facts_survive` is the checker that every part which writes facts joins. The rest kills:
a child forked from this process, or any command, with `kill -9`, at an instant drawn at random.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from midstep.facts.format.paths import events_path, list_steps_files
from midstep.facts.format.scanners import EventsScanner
from midstep.facts.read.step_columns import StepsReader

Acknowledge = Callable[[Any], None]
"""Called by the child, with anything JSON can hold, once a record is acknowledged."""


def assert_facts_survive(
    run_dir: str | Path, acknowledged: Iterable[Mapping[str, Any]] = (), *, rank: int = 0
) -> int:
    """I1 holds in a run directory; returns the number of the last record.

    Args:
        run_dir: the run directory, with nobody writing.
        acknowledged: what the writer was told is written: `seq`, and either `moment` or `step`,
            each with the fields or scalars to be found under them (`values`).
        rank: whose facts.
    """
    expected_facts = list(acknowledged)
    wanted = {fact["seq"] for fact in expected_facts}
    numbers: list[int] = []
    records: dict[int, dict[str, Any]] = {}
    for seq, record in iterate_records(run_dir, rank=rank):  # millions after a long load
        numbers.append(seq)
        if seq in wanted:
            records[seq] = record
    numbers.sort()
    assert numbers == list(range(1, len(numbers) + 1)), f"numbers have gaps or repeats: {numbers}"
    for fact in expected_facts:
        assert fact["seq"] in records, f"acknowledged but not on disk: {fact}"
        on_disk = records[fact["seq"]]
        expected = {name: fact[name] for name in ("moment", "step") if name in fact}
        expected.update(fact.get("values", {}))
        kept = {name: on_disk.get(name) for name in expected}
        assert kept == expected, f"record {fact['seq']} differs: {kept} for {expected}"
    return len(numbers)


def records_on_disk(run_dir: str | Path, *, rank: int = 0) -> list[tuple[int, dict[str, Any]]]:
    """Every whole record, read without the code that puts them in order or drops repeats."""
    return list(iterate_records(run_dir, rank=rank))


def iterate_records(run_dir: str | Path, *, rank: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """`records_on_disk`, one at a time."""
    attempts = list_steps_files(run_dir, rank)
    events = {events_path(run_dir, rank, attempt) for attempt, _ in attempts}
    for path in events:
        yield from ((line.seq, line.record()) for line in EventsScanner(path).read())
    for _, path in attempts:
        for group in StepsReader(path).runs():
            for row in group.rows:
                values = dict(zip(group.names, row["values"].tolist(), strict=True))
                yield int(row["seq"]), {"step": int(row["step"]), **values}


def assert_nothing_left(run_dir: str | Path) -> None:
    """I4 for files: no temporary one is left."""
    left = [path.name for path in Path(run_dir).rglob("*.midstep-tmp")]
    assert not left, f"temporary files are left: {left}"


def warm_up() -> None:
    """Import what the first optimizer imports, for a second, once here and not in each child."""
    import torch

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


def run_forked(work: Callable[[Acknowledge], None], *, user: int | None = None) -> list[Any]:
    """Run `work` in a forked child to its end; what it acknowledged. Its error is raised here."""
    child = ForkedChild(work, user=user)
    acknowledged = child.wait()
    for message in acknowledged:
        if isinstance(message, dict) and "raised" in message:
            raise AssertionError(f"in the forked child: {message['raised']}")
    assert child.status == 0, f"the forked child ended with {child.status}"
    return acknowledged


def fork() -> int:
    """`os.fork`; the child runs plain Python and leaves by `_exit` or a signal."""
    with warnings.catch_warnings():
        # Python 3.12 warns that other threads may hold locks; ours are renewed in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class ForkedChild:
    """A child forked from this process, which is warm, so a round costs milliseconds.

    Args:
        work: what it does; it gets the function that acknowledges.
        user: the user id to become first, for folders that root could always write.
    """

    def __init__(self, work: Callable[[Acknowledge], None], *, user: int | None = None) -> None:
        self._reader, writer = os.pipe()
        self._text = b""
        self.status: int | None = None
        """The exit code, negative for a signal, once it ended."""
        self.pid = fork()
        if self.pid == 0:
            os.close(self._reader)
            _run_and_exit(work, writer, user)
        os.close(writer)

    def read_until(self, count: int, *, timeout_s: float = 30.0) -> int:
        """Wait for that many acknowledgements, or for the end; how many there are."""
        deadline = time.monotonic() + timeout_s
        while self._text.count(b"\n") < count:
            ready, _, _ = select.select([self._reader], [], [], deadline - time.monotonic())
            assert ready, f"the child said nothing for {timeout_s} s"
            more = os.read(self._reader, 1 << 16)
            if not more:
                break
            self._text += more
        return self._text.count(b"\n")

    def kill(self) -> list[Any]:
        """Kill it with SIGKILL; everything it acknowledged before."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self, *, timeout_s: float = 30.0) -> list[Any]:
        """Wait for its end; everything it acknowledged."""
        self.read_until(1 << 62, timeout_s=timeout_s)
        os.close(self._reader)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return [json.loads(line) for line in self._text.split(b"\n")[:-1]]


def _close_in_children(descriptor: int) -> None:
    """Close it in processes that are forked from here on, such as workers of a loader.

    They live up to 5 s longer than a killed parent, and the reader would wait for them.
    """
    is_open = True

    def close() -> None:
        nonlocal is_open
        if is_open:
            is_open = False
            os.close(descriptor)

    os.register_at_fork(after_in_child=close)


def _run_and_exit(work: Callable[[Acknowledge], None], writer: int, user: int | None) -> None:
    """The life of a forked child: it never returns into the test."""
    status = 1
    _close_in_children(writer)

    def acknowledge(message: Any) -> None:
        os.write(writer, json.dumps(message).encode() + b"\n")

    try:
        if user is not None and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        work(acknowledge)
        status = 0
    except BaseException as error:  # noqa: BLE001 - told to the parent, which raises it
        acknowledge({"raised": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(status)


def kill_at_random(
    work: Callable[[Acknowledge], None], draw: random.Random, *, most: int
) -> list[Any]:
    """Fork, let up to `most` records be acknowledged and a little more time pass, kill."""
    child = ForkedChild(work)
    child.read_until(draw.randrange(1, most + 1))
    spin_until = time.perf_counter() + draw.random() * 0.002
    while time.perf_counter() < spin_until:  # shorter than a sleep can be
        continue
    return child.kill()


def kill_command(process: subprocess.Popen[Any], draw: random.Random, *, within_s: float) -> None:
    """Kill a running command with SIGKILL at an instant drawn from `within_s`."""
    try:
        process.wait(draw.random() * within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
