"""The check of `make lint` for names that say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.check_names import main, refused_names

REFUSED = {
    "assigned": "found = 1",
    "annotated": "place: int = 1",
    "unpacked": "first, *made = [1, 2]",
    "loop": "for told in []: pass",
    "comprehension": "[place for place in []]",
    "walrus": "if (found := 1): pass",
    "with": "with open('a') as made: pass",
    "import": "import os as told",
    "except": "try: pass\nexcept OSError as found: pass",
    "match": "match 1:\n    case place: pass",
    "match star": "match []:\n    case [*made]: pass",
    "match mapping": "match {}:\n    case {**told}: pass",
    "parameter": "def look(found): pass",
    "keyword parameter": "def look(*, place=1): pass",
    "collected parameters": "def look(*made): pass",
    "lambda": "lambda told: told",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_name_that_says_nothing_is_refused_with_its_line(kind: str) -> None:
    source = REFUSED[kind]
    ((line, name),) = refused_names(source)
    assert name in source.splitlines()[line - 1]


def test_attributes_keywords_and_longer_names_pass() -> None:
    assert refused_names("row.found = made_at = look(place=1)\nprint(row.told)") == []


def test_fields_of_a_format_pass() -> None:
    assert refused_names("class Row:\n    place: int") == []


def test_the_command_lists_every_place_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "good.py").write_text("index = 1\n")
    assert main([str(tmp_path)]) == 0
    bad = tmp_path / "room" / "bad.py"
    bad.write_text("index = 1\nfound = 2\n\nmade = 3\n")
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [f"{bad}:2", f"{bad}:4"]
