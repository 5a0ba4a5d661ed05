"""Refuses names that say nothing: `python tools/check_names.py src` lists each as file:line.

`found`, `made`, `told` and `place` fit any value, so a reader has to look up what they hold.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

REFUSED = frozenset({"found", "made", "told", "place"})


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of everything that a module assigns or takes as a parameter.

    Attributes, keyword arguments and annotated fields of classes are left out: they may belong to
    a format on disk or on the wire.
    """
    fields = {
        id(each.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if id(node) in fields:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
                | ast.alias(asname=str(name))
            ):
                yield node.lineno, name


def refused_names(source: str) -> list[tuple[int, str]]:
    """Line and name of each refused name of a module, in order.

    >>> refused_names("found = 1")
    [(1, 'found')]
    """
    return sorted(each for each in bound_names(ast.parse(source)) if each[1] in REFUSED)


def main(folders: list[str]) -> int:
    """Print every refused name under `folders`; 1 if there is one."""
    problems = [
        f"{path}:{line}: {name!r} says nothing; name what it holds"
        for folder in folders
        for path in sorted(Path(folder).rglob("*.py"))
        for line, name in refused_names(path.read_text(encoding="utf-8"))
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
