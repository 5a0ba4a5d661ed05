"""Generated pages of the reference show the help of the terminal undamaged."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest
from tools.references import cli_page

from tests.documents.blocks import DOCS

CLI = DOCS / "reference" / "cli.md"


@pytest.mark.parametrize("name", ["cli_page", "docstrings", "http_page", "markdown"])
def test_examples_of_the_generators_run(name: str) -> None:
    module = importlib.import_module(f"tools.references.{name}")
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed == 0


def test_a_list_of_the_help_keeps_its_lines() -> None:
    text = CLI.read_text(encoding="utf-8")
    assert "\nmemmap  one .npy file per table" in text
    assert "\n      - kind: custom_sequence\n        params: {prompt:" in text


def test_brackets_are_text_and_tags_are_gone() -> None:
    text = CLI.read_text(encoding="utf-8")
    assert "pip install 'midstep[data]'" in text
    assert "pip install 'midstep[parquet]'" in text
    assert re.findall(r"\[/?bold\]|\\\[|\x08", text) == []


def test_bold_over_a_line_break_is_one_command() -> None:
    text = cli_page.page()
    assert "`midstep train loop=ae phase1/latent_space=vq trainer.epochs=5`" in text
