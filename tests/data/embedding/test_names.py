"""The public names of `midstep.data`: complete, sorted, loaded only when used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import midstep.data as room


def test_names_are_sorted_and_each_has_one_home() -> None:
    assert room.__all__ == sorted(room.__all__)
    assert set(room._HOME) == set(room.__all__)


@pytest.mark.parametrize("name", room.__all__)
def test_every_name_loads_and_has_a_docstring(name: str) -> None:
    assert getattr(room, name).__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(room.__file__).read_text())
    checked = {
        f"{node.module}.{alias.name}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert checked == {f"midstep.data{home}.{name}" for name, home in room._HOME.items()}


def test_import_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, midstep.data; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "[]\n"


def test_tables_open_without_torch(folder: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['h5py'] = None; "
        f"from midstep.data import open_tables; print(len(open_tables({str(folder)!r})))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "17\n"
