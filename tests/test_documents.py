"""The documents name what exists: modules, links, headings, tests. Blocks: `tests/documents`."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tools.references.python_pages import PACKAGES, file_name

from tests.documents.blocks import DOCS, PAGES, ROOT

SOURCES = ROOT / "src" / "midstep"

QUESTIONS = [
    "order of samples",
    "token check",
    "batch picture",
    "breakpoint grammar",
    "kernel tiles",
    "checkpoint hash",
    "loop park",
    "BCL step",
    "going back",
    "default training step",
    "fsync of the facts",
    "forwarding to a live run",
    "hard negatives",
    "leak audit",
    "dead run",
]
"""What a stranger asks first; `docs/architecture.md` has the answers."""

_ROOMS = "|".join(path.name for path in SOURCES.iterdir() if path.is_dir())
_MODULE = re.compile(rf"`((?:{_ROOMS})/[\w/]+\.py)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
_DELIMITER = re.compile(r"\|?( *:?-+:? *\|)+( *:?-+:? *)?")
"""The second line of a table, as in `|---|:---:|`."""
_PIPE = re.compile(r"(?<!\\)\|")
"""The end of a cell; a pipe inside a cell is escaped, also in code."""


def named_modules(page: Path) -> list[str]:
    """Paths of modules in a page, as they stand in backticks."""
    return _MODULE.findall(page.read_text(encoding="utf-8"))


def section(page: str, title: str) -> str:
    """A section of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def anchors(page: Path) -> set[str]:
    """The anchors that mkdocs makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    missing = [name for name in named_modules(page) if not (SOURCES / name).is_file()]
    assert not missing


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_of_a_stranger_has_an_answer(question: str) -> None:
    rows = section("architecture.md", "Where is …?").splitlines()
    assert sum(question in row and bool(_MODULE.search(row)) for row in rows) == 1


def test_a_class_of_the_glossary_is_in_the_module_beside_it() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    pairs = re.findall(rf"`([A-Z]\w+)`, {_MODULE.pattern}", text)
    assert len(pairs) > 20
    for name, module in pairs:
        assert re.search(rf"^class {name}\b", (SOURCES / module).read_text(), re.MULTILINE), name


@pytest.mark.parametrize("title", ["The walk of one batch", "The walk of one command"])
def test_a_walk_names_its_modules(title: str) -> None:
    assert len(set(_MODULE.findall(section("architecture.md", title)))) >= 18


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def table_faults(text: str) -> list[str]:
    """Lines of tables that are no row: without a border, or with more or fewer cells than the head.

    A row ends at its line, so one that is wrapped is such a line. Another line that starts with a
    border is part of no table.
    """
    lines = prose_lines(text)
    faults = []
    columns = 0
    for index, line in enumerate(lines):
        if not line.strip():
            columns = 0
        elif not columns and any(map(_DELIMITER.fullmatch, lines[index + 1 : index + 2])):
            columns = len(_PIPE.findall(line)) - 1
            if index and lines[index - 1].strip():
                faults.append(lines[index - 1])
        is_row = line[:1] == line[-1:] == "|" and len(_PIPE.findall(line)) == columns + 1
        if (columns or line.startswith("|")) and not is_row:
            faults.append(line)
    return faults


def prose_lines(text: str) -> list[str]:
    """The lines of a page; those of its code blocks, which may be indented, are empty."""
    lines, is_code = [], False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        lines.append("" if is_code or is_fence else line.rstrip())
        is_code ^= is_fence
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_of_a_table_is_one_line_with_the_columns_of_its_head(page: Path) -> None:
    assert table_faults(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("rows", "faults"),
    [
        ("| `a\\|b` | c |", []),
        ("| `a|b` | c |", ["| `a|b` | c |"]),
        ("| a | b\nc |", ["| a | b", "c |"]),
        ("| a |", ["| a |"]),
        ("| a | b |\ntext", ["text"]),
        ("| a | b |\n\n| c | d |", ["| c | d |"]),
        ("| a | b |\n\n```text\n| c |\n```", []),
    ],
)
def test_a_row_that_is_wrapped_or_has_other_columns_is_found(rows: str, faults: list[str]) -> None:
    assert table_faults(f"| x | y |\n|---|---|\n{rows}\n") == faults


def test_every_page_is_in_the_navigation() -> None:
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(navigation)))
    stored = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert listed == stored | {f"reference/python/{file_name(name)}" for name in PACKAGES}


@pytest.mark.parametrize(
    ("page", "start", "stop"),
    [
        ("evidence.md", "\n## Sessions\n", "\n## "),
        ("reliability.md", "\n## State and repeated steps\n", "\n## Soak\n"),
        ("reference/reliability-tests.md", "\n## Invariants\n", "\n## Not promised\n"),
    ],
)
def test_every_test_that_is_named_as_evidence_exists(page: str, start: str, stop: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    evidence = text.split(start)[1].split(stop)[0]
    files = list((ROOT / "tests").rglob("*.py"))
    known = {path.name for path in files}
    for path in files:
        known.update(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    named = set(re.findall(r"\b(test_\w+(?:\.py)?)(?![\w…])", evidence))
    assert len(named) > 10
    assert named <= known


def test_every_decision_has_a_number_of_its_own_and_a_date() -> None:
    pages = [DOCS / "decisions.md", *sorted((DOCS / "decisions").glob("*.md"))]
    numbers = []
    for page in pages:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(("- ", "| **")):
                match = re.match(r"(?:- |\| )\*\*D(\d+)\*\* \(?(\d{4}-\d\d-\d\d)\)?", line)
                assert match, f"{page.name}: {line[:60]}"
                date.fromisoformat(match[2])
                numbers.append(int(match[1]))
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_every_external_address_is_well_formed() -> None:
    wrong = []
    for page in PAGES:
        for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
            parts = urlsplit(link)
            if parts.scheme and not (parts.scheme == "https" and "." in parts.netloc):
                wrong.append(f"{page.name}: {link}")
    assert wrong == []
