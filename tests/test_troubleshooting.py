"""Each tip of `docs/troubleshooting.md` names the test that tries it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEST = re.compile(r"`(test_\w+)`")


def test_each_tip_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    tips = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    without = [
        tip
        for tip in tips
        if not (TEST.search(tip) or tip.endswith(("| tried by |", "| the same |")))
    ]
    assert without == []
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", sources))
    assert set(TEST.findall(page)) - defined == set()
