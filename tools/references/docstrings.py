"""Docstrings in Google form as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

from tools.references import markdown

SECTIONS = {
    "Args": "argument",
    "Attributes": "attribute",
    "Raises": "error",
    "Returns": "",
    "Yields": "",
}
"""Sections of a docstring, with the head of their table if they have one."""
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}|Examples?):$")
_ENTRY = re.compile(r"^(\*{0,2}[\w.`, ]+?)(?: \([^)]*\))?:\s+(\S.*)$", re.DOTALL)


def as_markdown(docstring: str | None) -> list[str]:
    """The lines of a docstring; its arguments are a table, and its examples are code.

    >>> as_markdown(as_markdown.__doc__)[2:4]
    ['```pycon', '>>> as_markdown(as_markdown.__doc__)[2:4]']
    """
    lines: list[str] = []
    for block in _blocks(inspect.cleandoc(docstring or "")):
        lines += [*block, ""]
    return lines[:-1]


def _blocks(text: str) -> Iterator[list[str]]:
    """Paragraphs, sections and code, in their order."""
    paragraphs = re.split(r"\n\s*\n", text)
    index = 0
    while index < len(paragraphs):
        paragraph = paragraphs[index]
        index += 1
        head, _, rest = paragraph.partition("\n")
        if paragraph.startswith(">>>"):
            while index < len(paragraphs) and paragraphs[index].startswith(">>>"):
                paragraph += f"\n\n{paragraphs[index]}"
                index += 1
            yield ["```pycon", *paragraph.splitlines(), "```"]
        elif match := _SECTION.match(head):
            yield from _section(match[1], textwrap.dedent(rest))
        elif paragraph.startswith("    "):
            while index < len(paragraphs) and paragraphs[index].startswith("    "):
                paragraph += f"\n\n{paragraphs[index]}"
                index += 1
            yield ["```text", *textwrap.dedent(paragraph).splitlines(), "```"]
        else:
            yield paragraph.splitlines()


def _section(name: str, text: str) -> Iterator[list[str]]:
    entries = [_ENTRY.match(each) for each in re.split(r"\n(?=\S)", text)]
    if not SECTIONS.get(name) or None in entries:
        yield [f"{name}: {' '.join(text.split())}"]
        return
    rows = [(markdown.code(entry[1]), entry[2]) for entry in entries if entry is not None]
    yield [line for line in markdown.table([SECTIONS[name], "meaning"], rows) if line]
