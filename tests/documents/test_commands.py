"""Every command in the documents is one that its parser accepts."""

from __future__ import annotations

import re
import shlex

import pytest

from midstep.core.errors import ConfigError
from tests.documents.blocks import PAGES, blocks_of, is_generated, name_of, prose_of
from tests.documents.command_lines import (
    WrongCommandError,
    check,
    check_midstep,
    commands_of,
    reaches_outside,
)

SHELLS = {"bash", "console"}
WRITTEN = [page for page in PAGES if not is_generated(page) and page.name != "CHANGELOG.md"]
"""Pages written by hand. The changelog also names what is gone."""


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_in_blocks_are_accepted_by_their_parsers(page) -> None:
    wrong = []
    for block in blocks_of(page):
        if block.language not in SHELLS:
            continue
        for command in commands_of(block.code, is_session=block.language == "console"):
            try:
                check(command)
            except WrongCommandError as error:
                wrong.append(f"{block.where}: {shlex.join(command)}: {error}")
    assert wrong == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_blocks_that_install_download_or_connect_say_so(page) -> None:
    unmarked = [
        block.where
        for block in blocks_of(page)
        if block.language in SHELLS and not block.not_run
        for command in commands_of(block.code, is_session=block.language == "console")
        if reaches_outside(command)
    ]
    assert unmarked == []


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_commands_in_sentences_are_accepted_by_the_parser(page) -> None:
    wrong = []
    for text in re.findall(r"`(midstep [a-z][^`\n]*)`", prose_of(page)):
        # A word in capitals stands for a value of the reader, one in brackets may be left out.
        command = re.sub(r"\[[^\]]*\]", "", text.partition("…")[0])
        command = command.replace("CONDITION", "'loss > 1'")
        arguments = shlex.split(re.sub(r"\b[A-Z]+\b", "1", command))[1:]
        try:
            check_midstep(arguments, with_required=False)
        except WrongCommandError as error:
            wrong.append(f"{text}: {error}")
    assert wrong == []


def test_make_targets_in_sentences_exist() -> None:
    text = "\n".join(prose_of(page) for page in PAGES)
    named = set(re.findall(r"`make ([a-z]+)", text))
    assert {"demo", "test"} <= named
    for target in named:
        check(["make", target])


@pytest.mark.parametrize(
    "line",
    [
        "midstep ctl pauze",
        "midstep ctl step five",
        "midstep runs ls --weher x",
        "midstep ctl break add 'loss >'",
        "midstep ctl run-until",
        "make demmo",
        "make demo ARGSS=x",
        "python -m benchmarcs",
        "python examples/none.py",
        "mistep run x",
    ],
)
def test_the_checker_refuses_what_is_wrong(line) -> None:
    (command,) = commands_of(line, is_session=False)
    with pytest.raises((WrongCommandError, ConfigError)):
        check(command)
