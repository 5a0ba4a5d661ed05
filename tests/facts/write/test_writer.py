"""What the writer takes in, and what it makes of odd things."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from queue import Queue
from zlib import crc32

import numpy as np
import pytest

from midstep.core.errors import ConfigError, RunHeldError, StorageError
from midstep.core.files import storage
from midstep.core.moments import LIFECYCLE, Moment
from midstep.core.protocols import Sink
from midstep.facts import FactsReader, FactsWriter, open_writer
from midstep.facts.write import flush_thread, record_files
from tests.checkers.kill import assert_facts_survive, records_on_disk, run_forked


def rows_of(run_dir: Path) -> list[dict]:
    return [record for _, record in sorted(records_on_disk(run_dir)) if "moment" not in record]


def notes_of(run_dir: Path, kind: str) -> list[dict]:
    return [record for record in FactsReader(run_dir).events() if record.get("kind") == kind]


@pytest.mark.usefixtures("no_slow_writes")
def test_rows_and_events_share_one_contiguous_sequence(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        assert facts.event(Moment.START, seed=1) == 1
        facts.log(1, loss=0.5)
        assert facts.event(Moment.STEP, step=1) == 3
        facts.log_values(2, {"loss": 0.25})
        assert (facts.seq, facts.written) == (4, 4)
    assert assert_facts_survive(tmp_path) == 4
    assert rows_of(tmp_path) == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}]


def test_writer_is_a_sink_of_the_controller(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        sink: Sink = facts
        sink.log_values(1, {"loss": 0.5})
        sink.event(Moment.INTERVENTION, kind="pause")
    assert rows_of(tmp_path) == [{"step": 1, "loss": 0.5}]
    assert len(notes_of(tmp_path, "pause")) == 1


def test_an_event_line_is_the_documented_bytes(tmp_path: Path) -> None:
    with FactsWriter(tmp_path, run_id="0123456789ab", attempt=3, timeline=2) as facts:
        facts.event("on_epoch_end", epoch=1, metrics={"f1": math.nan})
    line = (tmp_path / "facts/events.jsonl").read_bytes()
    body, crc = line.rsplit(b',"crc":"', 1)
    assert crc == b'%08x"}\n' % crc32(body)
    record = json.loads(line)
    assert list(record)[:9] == [
        "schema_version",
        "seq",
        "attempt",
        "rank",
        "wall",
        "mono",
        "moment",
        "run_id",
        "timeline",
    ]
    assert record["schema_version"] == 2
    assert (record["attempt"], record["timeline"], record["run_id"]) == (3, 2, "0123456789ab")
    assert record["metrics"] == {"f1": "NaN"}


def test_fields_named_like_fixed_ones_do_not_replace_them(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.INTERVENTION, seq=99, crc="x", kind="test")
    [record] = FactsReader(tmp_path).events()
    assert (record["seq"], record["seq_"], record["crc_"]) == (1, 99, "x")


def test_an_unknown_moment_is_refused(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts, pytest.raises(ValueError, match="on_holiday"):
        facts.event("on_holiday")


def test_values_that_are_numbers_of_any_kind_are_kept(tmp_path: Path) -> None:
    import torch

    values = {
        "float": 1.5,
        "int": 2,
        "bool": True,
        "numpy": np.float32(0.5),
        "array": np.array(3),
        "fraction": Fraction(1, 4),
        "tensor": torch.tensor(2.5, requires_grad=True),
        "one": torch.tensor([[7]]),
    }
    with FactsWriter(tmp_path) as facts:
        facts.log(np.int64(4), **values)
        facts.log(torch.tensor(5), loss=1.0)
    first, second = rows_of(tmp_path)
    assert first == {
        "step": 4,
        "float": 1.5,
        "int": 2.0,
        "bool": 1.0,
        "numpy": 0.5,
        "array": 3.0,
        "fraction": 0.25,
        "tensor": 2.5,
        "one": 7.0,
    }
    assert second["step"] == 5


def test_not_a_number_and_the_infinities_are_kept(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, a=math.nan, b=math.inf, c=-math.inf)
    [row] = rows_of(tmp_path)
    assert math.isnan(row["a"])
    assert (row["b"], row["c"]) == (math.inf, -math.inf)


class Hostile:
    """Its conversion to a number raises something of its own."""

    def __float__(self) -> float:
        raise KeyError("mine")


@pytest.mark.parametrize(
    "odd",
    ["0.5", None, 1j, b"x", [1.0], {}, object(), 10**400, np.zeros(3), Hostile()],
    ids=lambda odd: type(odd).__name__,
)
def test_what_is_no_number_is_left_out_with_one_note(tmp_path: Path, odd: object) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(3):
            facts.log(step, loss=0.5, odd=odd)
    assert rows_of(tmp_path) == [{"step": step, "loss": 0.5} for step in range(3)]
    [note] = notes_of(tmp_path, "value_refused")
    assert note["name"] == "odd"
    assert_facts_survive(tmp_path)


@pytest.mark.parametrize("tensor", ["two", "complex", "meta"])
def test_tensors_that_are_no_scalars_are_left_out_with_a_note(tmp_path: Path, tensor: str) -> None:
    import torch

    odd = {
        "two": torch.zeros(2),
        "complex": torch.tensor(1j),
        "meta": torch.zeros((), device="meta"),
    }[tensor]
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=0.5, odd=odd)
    assert rows_of(tmp_path) == [{"step": 1, "loss": 0.5}]
    assert len(notes_of(tmp_path, "value_refused")) == 1


class OnDevice:
    """Stands for a scalar on a device: its value is ready only when it is waited for."""

    device = "device:0"
    is_cuda = False

    def __init__(self, value: float, ready: threading.Event) -> None:
        self.value, self.ready = value, ready

    def numel(self) -> int:
        return 1

    def is_complex(self) -> bool:
        return False

    def detach(self) -> OnDevice:
        return self

    def clone(self) -> OnDevice:
        return OnDevice(self.value, self.ready)

    def item(self) -> float:
        self.ready.wait()
        return self.value


def test_scalars_on_a_device_do_not_hold_up_log_and_keep_their_order(tmp_path: Path) -> None:
    ready = threading.Event()
    facts = FactsWriter(tmp_path)
    loss = OnDevice(0.5, ready)
    facts.log(1, loss=loss)
    loss.value = 9.0  # the caller may write over its tensor
    facts.log(2, loss=0.25)
    assert (facts.seq, facts.written) == (2, 0)
    ready.set()
    assert facts.event(Moment.EPOCH_END, epoch=0) == 3
    assert facts.written == 3
    facts.log(3, loss=0.1)
    assert facts.written == 4
    facts.close()
    assert [row["loss"] for row in rows_of(tmp_path)] == [0.5, 0.25, 0.1]
    assert_facts_survive(tmp_path)


@pytest.mark.parametrize("step", [None, "three", 2**70, math.nan, math.inf])
def test_a_step_that_is_no_number_is_noted(tmp_path: Path, step: object) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(step, loss=1.0)  # type: ignore[arg-type]
        facts.log(-(2**63), loss=2.0)
    assert rows_of(tmp_path) == [{"step": -(2**63), "loss": 2.0}]
    assert len(notes_of(tmp_path, "value_refused")) == 1


ODD_NAMES = [
    "",
    " ",
    "a/b.c",
    "übung",
    "\u202eright to left",
    "=1+1",
    "__proto__",
    'q"\\\n\0',
    "🚀",
]


def test_odd_names_come_back_as_they_were(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log_values(1, dict.fromkeys(ODD_NAMES, 1.0))
    assert set(FactsReader(tmp_path).names) == set(ODD_NAMES)


def test_names_that_cannot_be_written_are_made_so(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for name in ("\ud800", "\ud801", 3, "x" * 2000):
            facts.log_values(1, {name: 1.0})  # type: ignore[dict-item]
    assert set(FactsReader(tmp_path).names) == {"\\ud800", "\\ud801", "3"}
    [note] = notes_of(tmp_path, "value_refused")
    assert "2000 characters" in note["reason"]


def test_no_scalars_make_no_record(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1)
        facts.log(1, odd="text")
        assert facts.seq == 1  # the note
    assert rows_of(tmp_path) == []


@pytest.mark.usefixtures("no_slow_writes")
def test_many_layouts_stay_bounded_in_memory_and_all_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "MAXIMUM_LAYOUTS", 16)
    with FactsWriter(tmp_path) as facts:
        for step in range(100):
            facts.log_values(step, {f"metric{step % 40}": float(step)})
            assert len(facts._files._layouts) <= 16
    assert assert_facts_survive(tmp_path) == 100
    assert FactsReader(tmp_path).series(["metric7"])["metric7"].low.tolist() == [7.0, 47.0, 87.0]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_hundred_thousand_names_in_one_row(tmp_path: Path) -> None:
    values = {f"layer{index}/norm": float(index) for index in range(100_000)}
    with FactsWriter(tmp_path) as facts:
        facts.log_values(1, values)
        facts.log_values(2, values)
    found = FactsReader(tmp_path).series(["layer99999/norm"])
    assert found["layer99999/norm"].low.tolist() == [99999.0, 99999.0]


def test_huge_and_self_referring_fields_become_notes(tmp_path: Path) -> None:
    loop: list[object] = []
    loop.append(loop)

    class Rude:
        def __repr__(self) -> str:
            raise RuntimeError

    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.INTERVENTION, text="x" * 10_000_000, loop=loop, rude=Rude(), fine=1)
    [record] = FactsReader(tmp_path).events()
    assert record["fine"] == 1
    assert "10000002 characters" in record["text"]
    assert "RuntimeError" in record["rude"]


def test_many_threads_lose_and_double_nothing(tmp_path: Path) -> None:
    def work(thread: int) -> None:
        for step in range(200):
            facts.log_values(step, {f"loss{thread}": float(step)})
            if step % 50 == 0:
                facts.event(Moment.STEP, step=step)

    with FactsWriter(tmp_path) as facts:
        threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    survived = [r for _, r in records_on_disk(tmp_path) if r.get("kind") is None]
    assert len(survived) == 8 * 204
    assert_facts_survive(tmp_path)


@pytest.mark.usefixtures("no_slow_writes")
def test_an_interrupt_in_the_middle_of_a_write_leaves_no_half_counted_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl+C may come between the kernel's write and our count of it."""
    from midstep.core.files.storage import AppendFile

    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        append = AppendFile.append

        def interrupted(file: AppendFile, data: bytes) -> int:
            append(file, data)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(AppendFile, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                facts.log(2, loss=2.0)
            with pytest.raises(KeyboardInterrupt):
                facts.event(Moment.START)
        facts.log(3, loss=3.0)
        facts.event(Moment.TRAIN_END)
    assert rows_of(tmp_path) == [{"step": 1, "loss": 1.0}, {"step": 3, "loss": 3.0}]
    assert assert_facts_survive(tmp_path) == 3


def test_close_is_idempotent_and_ends_the_thread(tmp_path: Path) -> None:
    facts = FactsWriter(tmp_path)
    facts.close()
    facts.close()
    assert "midstep-facts" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(StorageError, match="closed"):
        facts.log(1, loss=0.0)
    with pytest.raises(StorageError, match="closed"):
        facts.event(Moment.START)


def test_a_second_writer_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        assert open_writer(tmp_path) is facts
        with pytest.raises(RunHeldError, match="this process"):
            FactsWriter(tmp_path)
    assert open_writer(tmp_path) is None


def test_a_new_attempt_goes_on_with_the_sequence_run_id_and_timeline(tmp_path: Path) -> None:
    with FactsWriter(tmp_path, attempt=1) as first:
        first.timeline = 3
        first.log(1, loss=1.0)
        first.event(Moment.STEP)
    with FactsWriter(tmp_path, attempt=2) as second:
        assert (second.seq, second.run_id, second.timeline) == (2, first.run_id, 3)
        second.log(2, loss=2.0)
    assert assert_facts_survive(tmp_path) == 3
    names = {path.name for path in (tmp_path / "facts").iterdir()}
    assert {"events.jsonl", "steps.0.1.bin", "steps.0.2.bin"} <= names


def test_the_same_attempt_can_be_reopened(tmp_path: Path) -> None:
    for step in range(3):
        with FactsWriter(tmp_path) as facts:
            facts.log(step, loss=float(step))
    assert [row["loss"] for row in rows_of(tmp_path)] == [0.0, 1.0, 2.0]
    assert assert_facts_survive(tmp_path) == 3


def test_other_ranks_write_files_of_their_own(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as zero, FactsWriter(tmp_path, rank=1) as one:
        zero.event(Moment.START)
        one.event(Moment.START)
        one.log(1, loss=1.0)
    assert assert_facts_survive(tmp_path, rank=0) == 1
    assert assert_facts_survive(tmp_path, rank=1) == 2
    ranks = [record["rank"] for record in FactsReader(tmp_path).events(rank=None)]
    assert sorted(ranks) == [0, 1]


def test_a_timeline_below_zero_is_refused(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts, pytest.raises(ConfigError, match="timeline"):
        facts.timeline = -1


def test_a_forked_child_cannot_write_and_leaves_the_parents_files_alone(tmp_path: Path) -> None:
    def work(acknowledge):
        for write in (lambda: facts.log(2, loss=2.0), lambda: facts.event(Moment.START)):
            try:
                write()
            except StorageError as error:
                acknowledge(str(error))
        facts.close()

    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        said = run_forked(work)
        facts.log(3, loss=3.0)
        with pytest.raises(AssertionError, match="RunHeldError"):
            run_forked(lambda _: FactsWriter(tmp_path).close())
    assert len(said) == 2
    assert "forked" in said[0]
    assert [row["step"] for row in rows_of(tmp_path)] == [1, 3]


@pytest.mark.usefixtures("no_slow_writes")
def test_a_wall_clock_going_back_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from midstep.facts.write import write_queue

    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
        monkeypatch.setattr(write_queue, "time", lambda: 5.0)
        facts.log(2, loss=2.0)
        facts.event(Moment.STEP)
    reader = FactsReader(tmp_path)
    assert reader.series()["loss"].low.tolist() == [1.0, 2.0]
    assert (reader.last_seq, reader.problems) == (3, [])


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Queue[str]:
    """Names of the files that were fsynced, in order."""
    names: Queue[str] = Queue()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        names.put(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(storage.os, "fsync", note)
    return names


def drained(names: Queue[str]) -> list[str]:
    return [names.get() for _ in range(names.qsize())]


def test_lifecycle_events_are_on_the_disk_when_event_returns_and_rows_before_them(
    tmp_path: Path, synced: Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush_thread, "SYNC_EVERY_S", 1e9)
    with FactsWriter(tmp_path) as facts:
        for moment in LIFECYCLE:
            facts.log(1, loss=1.0)
            drained(synced)
            facts.event(moment)
            assert drained(synced) == ["steps.0.1.bin", "events.jsonl"]
        facts.event(Moment.STEP)
        facts.event(Moment.INTERVENTION)
        facts.log(2, loss=1.0)
        assert drained(synced) == []


def test_rows_and_other_events_are_synced_by_the_thread(
    tmp_path: Path, synced: Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush_thread, "SYNC_EVERY_S", 0.01)
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.STEP)
        facts.log(1, loss=1.0)
        seen: set[str] = set()
        while not seen >= {"steps.0.1.bin", "events.jsonl"}:
            seen.add(synced.get(timeout=20))


def test_an_open_writer_is_finished_when_the_interpreter_ends(tmp_path: Path) -> None:
    code = (
        "import sys; from midstep.facts import FactsWriter, Lease\n"
        "lease = Lease.acquire(sys.argv[1], '0123456789ab')\n"
        "facts = FactsWriter(sys.argv[1]); facts.log(1, loss=1.0)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)], capture_output=True, check=True
    )
    assert done.stderr == b""
    assert assert_facts_survive(tmp_path) == 1
    assert not (tmp_path / "lease.json").exists()
