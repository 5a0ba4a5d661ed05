"""Which worker runs which test under `make test`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parent
CONFTEST = (TESTS / "conftest.py").read_text()
ONE_WORKER = re.findall(r'^    "(tests/.*)",$', CONFTEST, flags=re.MULTILINE)

RECORDED = """
import os, pathlib, time
import pytest

@pytest.mark.parametrize("number", range(10))
def test_records_its_worker(number):
    time.sleep(0.02)
    folder = pathlib.Path(os.environ["RECORDS"])
    (folder / f"{__name__}-{number}").write_text(os.environ["PYTEST_XDIST_WORKER"])
"""


def test_files_of_one_worker_exist() -> None:
    assert len(ONE_WORKER) == 4
    for path in ONE_WORKER:
        assert (TESTS.parent / path).exists(), path


def test_one_worker_runs_the_files_that_wait_and_the_other_runs_the_rest(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "tests" / "browser").mkdir(parents=True)
    (pytester.path / "tests" / "conftest.py").write_text(CONFTEST)
    for name in ("browser/test_page", "browser/test_tabs", "test_packaging", "test_others"):
        (pytester.path / "tests" / f"{name}.py").write_text(RECORDED)
    records = pytester.mkdir("records")
    monkeypatch.setenv("RECORDS", str(records))
    outcome = pytester.runpytest_subprocess("-n", "2", "--dist", "loadgroup", "tests")
    outcome.assert_outcomes(passed=40)
    workers: dict[bool, set[str]] = {True: set(), False: set()}
    for file in records.iterdir():
        workers["others" in file.name].add(file.read_text())
    assert len(workers[False]) == 1
    assert workers[True] - workers[False]  # the other worker did not wait for the group
