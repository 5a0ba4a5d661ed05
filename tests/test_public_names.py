"""The dozen names a user types: complete, sorted, and loaded only when used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import midstep


def test_names_are_sorted_and_each_has_one_home() -> None:
    assert midstep.__all__ == sorted(midstep.__all__)
    assert set(midstep._HOME) | {"__version__"} == set(midstep.__all__)


@pytest.mark.parametrize("name", midstep.__all__)
def test_every_public_name_loads_and_has_a_docstring(name: str) -> None:
    value = getattr(midstep, name)
    assert name == "__version__" or value.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(midstep.__file__).read_text())
    checked = {
        f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == {f"{home}.{name}" for name, home in midstep._HOME.items()}


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atach'"):
        _ = midstep.atach


def test_import_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, midstep; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize("room", ["core", "core.storage", "facts", "client", "cli.main"])
def test_room_imports_without_torch(room: str) -> None:
    code = f"import sys; sys.modules['torch'] = None; import midstep.{room}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_types_are_shipped() -> None:
    assert Path(midstep.__file__).with_name("py.typed").exists()
