"""Every code block in the documents runs, or says why it cannot and is at least compiled."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents.blocks import DOCS, PAGES, ROOT, Block, blocks_of, is_generated, name_of
from tests.documents.setups import SETUPS

LANGUAGES = {"python", "bash", "console", "yaml", "json", "toml", "pycon", "text"}
"""`console` has commands and what they print, `text` is no code: output, a drawing, a formula."""

WRITTEN = [page for page in PAGES if not is_generated(page)]
WITH_PYTHON = [page for page in WRITTEN if any(b.language == "python" for b in blocks_of(page))]
LONGEST_PAGE = 250


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_has_a_language_and_none_is_indented(page: Path) -> None:
    assert {block.language for block in blocks_of(page)} <= LANGUAGES
    text = re.sub(r"^ *```.*?^ *```$", "```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"(?<=\n\n) {4}\S.*", text)
    # In a list, such a line continues its item.
    assert [line for line in indented if not re.search(r"^\s*([-*]|\d+\.) ", text, re.M)] == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_a_page_is_read_in_one_sitting(page: Path) -> None:
    if page.name != "CHANGELOG.md":
        assert len(page.read_text().splitlines()) <= LONGEST_PAGE


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_blocks_of_python_run(page: Path, tmp_path: Path, monkeypatch, request) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.language != "python" or block.not_run:
            continue
        if block.runs == "after the block above":
            assert names, f"{block.where} has no block above it"
        elif block.runs is None or block.runs.startswith("with "):
            names = new_names(block, request)
        else:
            names = {}
            continue  # another test runs it, see below
        exec(compiled(block), names)


def new_names(block: Block, request: pytest.FixtureRequest) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    if block.runs is not None:
        names |= request.getfixturevalue(SETUPS[block.runs.removeprefix("with ")])
    return names


def compiled(block: Block) -> Any:
    """The code of a block; errors in it name the line of the page."""
    code = "\n" * (block.line - 1) + block.code
    return compile(code, str(block.page), "exec", dont_inherit=True)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_what_is_not_run_is_compiled_or_parsed(page: Path) -> None:
    for block in blocks_of(page):
        match block.language:
            case "python":
                compiled(block)
            case "json":
                json.loads(block.code)
            case "toml":
                tomllib.loads(block.code)
            case "yaml":
                yaml.safe_load(block.code)


@cache
def files_by_test() -> dict[str, Path]:
    return {
        name: path
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_a_test_that_runs_a_block_exists_and_reads_its_page() -> None:
    for page in WRITTEN:
        for block in blocks_of(page):
            if block.runs is not None and block.runs.startswith("in "):
                path = files_by_test()[block.runs.removeprefix("in ")]
                assert page.name in path.read_text(), f"{block.where}: {path.name} does not read it"


def test_reasons_for_not_running_are_reasons() -> None:
    reasons = [block.not_run for page in WRITTEN for block in blocks_of(page) if block.not_run]
    assert all(len(reason.split()) >= 3 for reason in reasons)


def test_no_comment_about_running_is_misspelt() -> None:
    """One that is not above a block has no effect."""
    for page in WRITTEN:
        known = sum(bool(block.runs or block.not_run) for block in blocks_of(page))
        comments = re.findall(r"^ *<!-- (?:runs|not run)", page.read_text(), re.MULTILINE)
        assert len(comments) == known, page


def test_every_setup_is_used() -> None:
    used = {
        block.runs.removeprefix("with ")
        for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]
        for block in blocks_of(page)
        if block.runs and block.runs.startswith("with ")
    }
    assert used == SETUPS.keys()
