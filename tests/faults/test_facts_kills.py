"""`kill -9` at every point of a facts file, and at random: no acknowledged record is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from midstep.core.moments import Moment
from midstep.facts import FactsReader, FactsWriter, end_state
from tests.checkers.kill import assert_facts_survive, assert_nothing_left
from tests.faults.tracing import ROOT, trace

POINTS = {
    "openat": 8,
    "write": 9,
    "pwrite64": 1,
    "fsync": 6,
    "close": 6,
    "fcntl": 1,
    "ftruncate": 2,
    "rename": 1,
}
"""Calls on the facts, each with the fewest points at which the short life makes it."""
FILES = ["events.jsonl", "steps.0.1.bin", ".lock", ".scalars.csv.fixed.midstep-tmp"]
MOST_POINTS = 60


def check_after_kill(run_dir: Path, told: list[dict]) -> None:
    """I1 at once, after the next start, and after one more."""
    assert_facts_survive(run_dir, told)
    for _ in range(2):
        with FactsWriter(run_dir, attempt=2) as facts:
            facts.log(9, loss=9.0)
        assert_facts_survive(run_dir, told)
        assert FactsReader(run_dir).problems == []
        assert_nothing_left(run_dir)


@pytest.mark.parametrize("call", POINTS)
def test_a_kill_at_every_call_on_the_facts_loses_nothing_acknowledged(
    tmp_path: Path, strace: str, call: str
) -> None:
    script = str(Path(__file__).with_name("short_life.py"))
    for point in range(1, MOST_POINTS):
        run_dir = tmp_path / f"{call}{point}"
        facts = run_dir / "facts"
        paths = [facts / name for name in FILES]
        inject = f"{call}:signal=KILL:when={point}"
        log = tmp_path / "strace.log"
        done = trace(strace, [script, str(run_dir)], paths=[facts, *paths], inject=inject, log=log)
        if not done.was_killed:
            assert len(done.told) == 7, done.errors
            assert point > POINTS[call], "the trace missed some points"
            assert end_state(run_dir).state == "finished"
            return
        if facts.exists():
            said_end = any(fact.get("moment") == "on_train_end" for fact in done.told)
            state = end_state(run_dir).state
            assert state in ({"finished"} if said_end else {"killed", "lost", "finished"})
            check_after_kill(run_dir, done.told)
    pytest.fail(f"{call} was killed {MOST_POINTS} times and the child never survived")


REPLACE = """
import secrets, sys
secrets.token_hex = lambda size: "fixed"
from midstep.core.files.storage import replace_bytes
replace_bytes(sys.argv[1], b"new" * 1000)
"""


@pytest.mark.parametrize("call", ["openat", "write", "fsync", "close", "rename"])
def test_a_kill_at_every_call_of_a_replace_leaves_old_or_new(
    tmp_path: Path, strace: str, call: str
) -> None:
    path = tmp_path / "folder/a.json"
    path.parent.mkdir()
    paths = [path, path.parent, path.parent / ".a.json.fixed.midstep-tmp"]
    for point in range(1, MOST_POINTS):
        path.write_bytes(b"old")
        done = trace(
            strace,
            ["-c", REPLACE, str(path)],
            paths=paths,
            inject=f"{call}:signal=KILL:when={point}",
            log=tmp_path / "strace.log",
        )
        assert path.read_bytes() in {b"old", b"new" * 1000}
        if not done.was_killed:
            assert path.read_bytes() == b"new" * 1000, done.errors
            assert point > 1
            return
        paths[2].unlink(missing_ok=True)
    pytest.fail(f"{call} was killed {MOST_POINTS} times and the child never survived")


def kills(folder: Path, rounds: int, seed: int, *, script_name: str = "random_kills.py") -> None:
    """A warm parent forks children, kills them at random instants, and checks what they left."""
    script = Path(__file__).with_name(script_name)
    done = subprocess.run(
        [sys.executable, str(script), str(folder), str(rounds), str(seed)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_fifty_random_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    kills(tmp_path, 50, seed)


def test_ten_random_kills_of_a_served_demo_lose_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # shown when it fails
    kills(tmp_path, 10, seed, script_name="demo_kills.py")


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_thousand_random_kills_lose_nothing_acknowledged(
    tmp_path: Path, record_property: Callable[[str, str], None]
) -> None:
    for block in range(20):
        kills(tmp_path / str(block), 50, block)
    record_property("figure", "1,000 kills of a facts writer, invariants broken: 0")


def test_a_writer_killed_again_and_again_in_one_directory_goes_on(tmp_path: Path) -> None:
    from tests.checkers.kill import kill_at_random

    draw = random.Random(5)
    told: list[dict] = []
    for attempt in range(1, 9):

        def work(acknowledge, attempt=attempt):
            facts = FactsWriter(tmp_path, attempt=attempt)
            for step in range(10**9):
                facts.log(step, loss=float(step))
                if facts.written == facts.seq:
                    acknowledge({"seq": facts.seq, "step": step})
                if step % 5 == 0:
                    facts.event(Moment.STEP, step=step)

        told += kill_at_random(work, draw, most=40)
        assert_facts_survive(tmp_path, told)
    assert FactsReader(tmp_path).problems == []
