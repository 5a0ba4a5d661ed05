"""`make soak SOAK=kills`: run one part of the long fault tests, and add its figures to the docs.

A test gives a figure with pytest's `record_property("figure", "1,000 kills, 0 invariants broken")`.
What several tests do is added up: `record_property("count", "100 generated requests")`.
Generated trainings each give their outcome, `record_property("generated training", "exact")`, and
are counted. A training that is silently inexact fails its test and has none.
The page has one row for each part: when it ran last, on which commit, and what it found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
PARTS = {
    "kills": (
        "tests/faults/test_facts_kills.py",
        "tests/faults/test_session_kills.py",
        "tests/faults/test_session_storage.py",
        "tests/faults/test_sweep_kills.py",
    ),
    "load": ("tests/security/test_load.py", "tests/server/test_many_clients.py"),
    "matrix": (
        "tests/faults/test_state_matrix.py",
        "tests/data",
        "tests/session",
        "tests/live",
    ),
    "faults": ("tests",),
}
"""Where the tests of each part are; `faults` has all that no other part has."""
TITLE = "## Soak"
INTRODUCTION = (
    "The long tests of `make soak`, each part as it ran last. A broken invariant fails its test."
)
HEAD = "| part | date | commit | minutes | tests | found |\n|---|---|---|---|---|---|"


@dataclass(frozen=True, kw_only=True)
class PartResult:
    """What one part found."""

    part: str
    minutes: float
    passed: int
    failed: int
    skipped: int
    figures: tuple[str, ...]

    def row(self, commit: str, at: datetime) -> str:
        """Its row of the table.

        >>> result = PartResult(
        ...     part="kills", minutes=12.34, passed=3, failed=0, skipped=1, figures=("9 kills",)
        ... )
        >>> result.row("0a1b2c3", datetime(2026, 1, 2, tzinfo=UTC))
        '| kills | 2026-01-02 | 0a1b2c3 | 12.3 | 3 passed, 1 skipped | 9 kills |'
        """
        counts = [f"{self.passed:,} passed"]
        counts += [f"{self.failed:,} FAILED"] if self.failed else []
        counts += [f"{self.skipped:,} skipped"] if self.skipped else []
        cells = (self.part, f"{at:%Y-%m-%d}", commit, f"{self.minutes:.1f}", ", ".join(counts))
        return f"| {' | '.join(cells)} | {'; '.join(self.figures) or 'no figure'} |"


def arguments_of(part: str) -> list[str]:
    """What pytest is called with: the paths of the part, less those of the other parts."""
    if part != "faults":
        return list(existing(PARTS[part]))
    others = [path for name, paths in PARTS.items() if name != part for path in existing(paths)]
    return [*PARTS[part], *(f"--ignore={path}" for path in others)]


def existing(paths: Sequence[str]) -> list[str]:
    """The paths that there are: a part may name tests of a later version."""
    return [path for path in paths if (ROOT / path).exists()]


def read_results(part: str, report: Path) -> PartResult:
    """Counts and figures in pytest's XML report."""
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - written just now
    if suite is None:
        raise SystemExit(f"midstep: {report} holds no test suite; the tests did not start")
    count = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    figures = _values(suite, "figure")
    figures += added_up(_values(suite, "count"))
    outcomes = Counter(_values(suite, "generated training"))
    if outcomes:
        counts = ", ".join(f"{name} {number}" for name, number in sorted(outcomes.items()))
        figures.append(f"{outcomes.total()} generated trainings: {counts}")
    return PartResult(
        part=part,
        minutes=float(suite.get("time", "0")) / 60,
        passed=count["tests"] - failed - count["skipped"],
        failed=failed,
        skipped=count["skipped"],
        figures=tuple(figures),
    )


def _values(suite: ElementTree.Element, name: str) -> list[str]:
    return [str(each.get("value")) for each in suite.iter("property") if each.get("name") == name]


def added_up(counts: Sequence[str]) -> list[str]:
    """The sum for each kind of what was counted, in the order in which the kinds appear.

    >>> added_up(["900 requests", "1 signal", "100 requests"])
    ['1,000 requests', '1 signal']
    """
    sums = Counter[str]()
    for each in counts:
        number, _, what = each.partition(" ")
        sums[what] += int(number)
    return [f"{number:,} {what}" for what, number in sums.items()]


def with_row(page: str, part: str, row: str) -> str:
    r"""The page with the row of a part: in place of its last one, or as a new one.

    >>> page = with_row("# Reliability\n", "kills", "| kills | a |")
    >>> page = with_row(page + "\n## More\n\n| of another table |\n", "load", "| load | b |")
    >>> print(with_row(page, "kills", "| kills | c |").partition("|---|\n")[2])
    | kills | c |
    | load | b |
    <BLANKLINE>
    ## More
    <BLANKLINE>
    | of another table |
    <BLANKLINE>
    """
    if TITLE not in page.splitlines():
        page = f"{page.rstrip()}\n\n{TITLE}\n\n{INTRODUCTION}\n\n{HEAD}\n"
    before, _, section = page.partition(f"{TITLE}\n")
    lines = section.split("\n")
    first = next(at for at, line in enumerate(lines) if line.startswith("|"))
    stop = next(
        (at for at in range(first, len(lines)) if not lines[at].startswith("|")), len(lines)
    )
    rows = range(first, stop)
    same = [at for at in rows if lines[at].startswith(f"| {part} |")]
    if same:
        lines[same[0]] = row
    else:
        lines.insert(stop, row)
    return f"{before}{TITLE}\n" + "\n".join(lines)


def commit_name() -> str:
    """The short name of the commit, with a mark if files were changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or "unknown"


def main(words: Sequence[str]) -> int:
    """Run the tests of a part and write its row; the exit code is that of the tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("more", nargs="*", help="further arguments of pytest")
    given, unknown = parser.parse_known_args(words)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-m", "soak", "--timeout", "5400"),
            *(f"--junitxml={report}", "-o", "junit_family=xunit1"),
            *(*arguments_of(given.part), *given.more, *unknown),
        ]
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if not report.exists():
            return code or 1
        result = read_results(given.part, report)
    row = result.row(commit_name(), datetime.now(UTC))
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Reliability\n"
    PAGE.write_text(with_row(page, given.part, row), encoding="utf-8")
    print(row)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
