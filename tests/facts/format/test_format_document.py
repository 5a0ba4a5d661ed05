"""The page on the format is true: its reader, which knows nothing of midstep, reads a run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from midstep.core.moments import Moment
from midstep.facts import FactsWriter
from midstep.facts.write import record_files as ledger_module

PAGE = Path(__file__).parents[3] / "docs/facts-format.md"


def read_by_the_page(run_dir: Path) -> list[dict]:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(run_dir)], capture_output=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.usefixtures("no_slow_writes")
def test_the_reader_of_the_page_reads_what_the_writer_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "SEAL_EVERY_BYTES", 200)
    with FactsWriter(tmp_path) as facts:
        facts.event(Moment.START, seed=7)
        for step in range(6):
            facts.log(step, loss=step / 2)
        facts.timeline = 1
        facts.log_values(3, {"loss": 9.0, "größe": 1.0})
    with FactsWriter(tmp_path, attempt=2) as facts:
        facts.log(6, loss=3.0)
        facts.event(Moment.TRAIN_END, status="finished")
    found = read_by_the_page(tmp_path)
    assert [record["seq"] for record in found] == list(range(1, 11))
    assert found[0]["seed"] == 7
    assert [record["loss"] for record in found[1:7]] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    assert found[7] == {"seq": 8, "step": 3, "timeline": 1, "loss": 9.0, "größe": 1.0}
    assert found[9]["status"] == "finished"


@pytest.mark.usefixtures("no_slow_writes")
def test_the_reader_of_the_page_gets_past_damage(tmp_path: Path) -> None:
    with FactsWriter(tmp_path) as facts:
        for step in range(4):
            facts.log(step, loss=float(step))
        facts.event(Moment.STEP)
    path = tmp_path / "facts/steps.0.1.bin"
    data = bytearray(path.read_bytes())
    data[64 + 32 + 56 + 4] ^= 0xFF  # the size of the second row
    path.write_bytes(data)
    assert [record["seq"] for record in read_by_the_page(tmp_path)] == [1, 3, 4, 5]


def test_every_kind_of_note_is_on_the_page() -> None:
    room = Path(ledger_module.__file__).parent
    source = "".join(path.read_text() for path in room.glob("*.py"))
    kinds = set(re.findall(r'kind="(\w+)"|"kind": "(\w+)"', source))
    page = PAGE.read_text()
    for kind in {name for pair in kinds for name in pair if name}:
        assert f"`{kind}`" in page
