"""Damaged bytes and unknown versions: reported, and no wrong record is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import FormatError
from midstep.core.moments import Moment
from midstep.facts import (
    FactsReader,
    FactsTail,
    FactsWriter,
)
from midstep.facts.format import step_frames as frames_module
from midstep.facts.format.step_frames import FileHeader, file_header
from midstep.facts.write import record_files as ledger_module


def test_an_unknown_version_of_a_steps_file_is_refused_by_name(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        facts.log(1, loss=1.0)
    path = tmp_path / "facts/steps.0.1.bin"
    monkey = pytest.MonkeyPatch()
    monkey.setattr(frames_module, "VERSION", 9)
    header = file_header(FileHeader("0123456789ab", 1, 0))
    monkey.undo()
    path.write_bytes(header + path.read_bytes()[64:])
    with pytest.raises(FormatError, match=r"steps\.0\.1\.bin.*version 9"):
        FactsTail(tmp_path).poll()


def test_an_event_of_an_unknown_version_is_listed_as_a_problem(tmp_path: Path) -> None:
    from zlib import crc32

    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.START)
    body = b'{"schema_version":7,"seq":2,"moment":"on_start"'
    with (tmp_path / "facts/events.jsonl").open("ab") as file:
        file.write(body + b',"crc":"%08x"}\n' % crc32(body))
    reader = FactsReader(tmp_path)
    assert len(reader.events()) == 1
    assert "schema version 7" in reader.problems[0]


# -- damage ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of two layouts with a seal among them, and three events."""
    run_dir = tmp_path_factory.mktemp("small")
    patch = pytest.MonkeyPatch()
    patch.setattr(ledger_module, "SEAL_EVERY_BYTES", 300)
    with FactsWriter(run_dir) as facts:
        facts.event(Moment.START, seed=1)
        for step in range(8):
            facts.log(step, loss=float(step))
            if step % 3 == 0:
                facts.log(step, loss=float(step), lr=0.1)
        facts.event(Moment.EPOCH_END, epoch=0)
        facts.event(Moment.TRAIN_END)
    patch.undo()
    return run_dir


def records(run_dir: Path) -> dict[int, object]:
    from tests.checkers.kill import records_on_disk

    return dict(records_on_disk(run_dir))


@pytest.mark.parametrize("name", ["steps.0.1.bin", "events.jsonl"])
def test_any_flipped_byte_is_reported_and_costs_at_most_its_own_records(
    small_run: Path, tmp_path: Path, name: str
) -> None:
    whole = records(small_run)
    shutil.copytree(small_run, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "facts" / name
    data = path.read_bytes()
    for offset in range(len(data)):
        flipped = bytearray(data)
        flipped[offset] ^= 0x41
        path.write_bytes(flipped)
        found = records(tmp_path)
        lost = whole.keys() - found.keys()
        assert all(whole[seq] == found[seq] for seq in found), f"wrong record after byte {offset}"
        reader = FactsReader(tmp_path)
        is_tail = offset >= len(data) - 56 or (name == "events.jsonl" and offset == len(data) - 1)
        assert reader.problems or is_tail, f"byte {offset} flipped in silence"
        layout_was_hit = any("names of" in problem for problem in reader.problems)
        assert len(lost) <= 2 or layout_was_hit, f"byte {offset} cost {len(lost)} records"


@given(start=st.integers(64, 900), length=st.integers(1, 200), fill=st.binary(min_size=1))
@settings(max_examples=100, deadline=None)
def test_any_overwritten_stretch_gives_no_wrong_record(
    small_run: Path, tmp_path_factory: pytest.TempPathFactory, start: int, length: int, fill: bytes
) -> None:
    run_dir = tmp_path_factory.mktemp("overwritten")
    shutil.copytree(small_run, run_dir, dirs_exist_ok=True)
    path = run_dir / "facts/steps.0.1.bin"
    data = bytearray(path.read_bytes())
    stop = min(len(data), start + length)
    data[start:stop] = (fill * length)[: stop - start]
    path.write_bytes(data)
    whole, found = records(small_run), records(run_dir)
    assert all(whole[seq] == found[seq] for seq in found)
