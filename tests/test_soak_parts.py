"""The parts of `make soak`: each long test is in exactly one, and its figures reach the page."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tools import soak_report

ROOT = Path(__file__).parents[1]
REPORT = """<testsuites><testsuite tests="5" failures="1" errors="0" skipped="1" time="90.5">
<testcase name="a"><properties><property name="figure" value="9 kills"/></properties></testcase>
<testcase name="b"><properties><property name="count" value="900 requests"/></properties></testcase>
<testcase name="c"><properties><property name="count" value="100 requests"/></properties></testcase>
</testsuite></testsuites>"""


def parts_of(path: Path) -> list[str]:
    """The parts whose arguments select a file of tests."""
    name = path.relative_to(ROOT).as_posix()
    chosen = []
    for part in soak_report.PARTS:
        words = soak_report.arguments_of(part)
        ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--")]
        is_in = [
            any(name == each or name.startswith(f"{each}/") for each in group)
            for group in ([word for word in words if not word.startswith("--")], ignored)
        ]
        if is_in == [True, False]:
            chosen.append(part)
    return chosen


def test_every_long_test_is_in_exactly_one_part() -> None:
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.soak" in path.read_text()
    ]
    assert len(files) > 8
    others = [path for path in files if path.name != "test_soak_parts.py"]
    assert {path.name: parts for path in others if len(parts := parts_of(path)) != 1} == {}


def test_figures_and_counts_of_a_part_become_its_row(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    result = soak_report.read_results("kills", tmp_path / "report.xml")
    row = result.row("abc", datetime(2026, 1, 2, tzinfo=UTC))
    counts, found = "3 passed, 1 FAILED, 1 skipped", "9 kills; 1,000 requests"
    expected = f"| kills | 2026-01-02 | abc | 1.5 | {counts} | {found} |"
    assert row == expected
    page = soak_report.with_row("# Reliability\n\nWords.\n", "kills", row)
    assert soak_report.with_row(page, "kills", row) == page
    assert page.count(expected) == 1


def test_outcomes_of_generated_trainings_are_counted(tmp_path: Path) -> None:
    outcomes = "".join(
        f'<testcase><properties><property name="generated training" value="{each}"/></properties>'
        "</testcase>"
        for each in ("exact", "refused", "exact")
    )
    report = tmp_path / "report.xml"
    report.write_text(f'<testsuites><testsuite tests="3">{outcomes}</testsuite></testsuites>')
    result = soak_report.read_results("matrix", report)
    assert result.figures == ("3 generated trainings: exact 2, refused 1",)


def test_examples_of_the_tool_run() -> None:
    assert doctest.testmod(soak_report).failed == 0


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak_report.main(["lod"])
    assert "kills" in capsys.readouterr().err
