"""The public names of each package: complete, sorted, and imported only when used."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_origin

import pytest

import midstep

ROOMS = (
    "midstep.client",  # first: it may load nothing of WEB either
    "midstep",
    "midstep.core",
    "midstep.core.files.storage",
    "midstep.facts",
    "midstep.data",
    "midstep.data.order",
    "midstep.data.sources",
    "midstep.influence",
    "midstep.models.autoencoder.part_configs",
    "midstep.session",
    "midstep.session.hooks",
    "midstep.control.breakpoints.rule",
    "midstep.cli.main",
    "midstep.server.datasets.dataset_routes",
    "midstep.server.influence.influence_routes",
)
"""What loads neither torch nor numpy. One process imports all of them, in this order."""
WEB = ("fastapi", "httpx", "requests")
IMPORT_ALL = f"""
import importlib, json, sys
asked = []
class Refuse:
    def find_spec(name, path=None, target=None):
        if name in ("torch", "numpy"):
            asked.append(name)
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
        if name in {WEB}:
            asked.append(name)
sys.meta_path.insert(0, Refuse)
table = {{}}
for room in sys.argv[1:]:
    asked.clear()
    try:
        importlib.import_module(room)
    except ImportError as error:
        asked.append(str(error))
    table[room] = list(asked)
print(json.dumps(table))
"""
LAZY_PACKAGES = {
    "midstep": {"__version__"},
    "midstep.core": set(),
    "midstep.data": set(),
    "midstep.data.order": set(),
    "midstep.data.sources": set(),
    "midstep.facts": set(),
    "midstep.influence": set(),
    "midstep.models.autoencoder": set(),
    "midstep.session": {"hooks"},
    "midstep.session.hooks": set(),
}
"""For each package with a lazy table, the public names that it imports at once."""

PUBLIC_NAMES = [
    (package, name)
    for package in LAZY_PACKAGES
    for name in importlib.import_module(package).__all__
]

NAMES_A_USER_TYPES = """
    Breakpoint Client ClientError Command ConfigError ControlError DebugController Hook
    MidstepError Panel Run Session SessionConfig StopTraining StorageError __version__ attach
    env_state histogram hooks serve table view
"""


def typed_names(package: str) -> dict[str, str]:
    """Under `TYPE_CHECKING`, by name the module it comes from."""
    tree = ast.parse(Path(str(importlib.import_module(package).__file__)).read_text())
    aliases = [
        (alias, str(node.module))
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert all(alias.asname == alias.name for alias, _ in aliases), "re-exports are `X as X`"
    assert len({alias.name for alias, _ in aliases}) == len(aliases)
    return {alias.name: module for alias, module in aliases}


def test_midstep_has_the_names_a_user_types() -> None:
    assert midstep.__all__ == sorted(NAMES_A_USER_TYPES.split())


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_names_are_sorted_and_each_has_one_home(package: str) -> None:
    names = importlib.import_module(package).__all__
    assert names == sorted(set(names))
    assert set(names) <= set(dir(importlib.import_module(package)))


@pytest.mark.parametrize(("package", "name"), PUBLIC_NAMES)
def test_every_public_name_loads_and_has_a_docstring(package: str, name: str) -> None:
    value = getattr(importlib.import_module(package), name)
    is_described = name == "__version__" or get_origin(value) is Literal  # neither can have one
    assert is_described or value.__doc__


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_type_checkers_see_the_same_names(package: str) -> None:
    loaded = importlib.import_module(package)
    typed = typed_names(package)
    assert typed.keys() | LAZY_PACKAGES[package] == set(loaded.__all__)
    for name, module in typed.items():
        assert getattr(loaded, name) is getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("package", LAZY_PACKAGES)
def test_unknown_name_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'atach'"):
        _ = importlib.import_module(package).atach


def imported(rooms: Sequence[str], path: Path | None = None) -> dict[str, list[str]]:
    """Which modules each room asked for, when a new process imports one after the other."""
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *rooms],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(path)} if path else None,
    )
    table: dict[str, list[str]] = json.loads(answer.stdout)
    return table


@pytest.fixture(scope="module")
def table() -> dict[str, list[str]]:
    return imported(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_room_asks_for_neither_torch_nor_numpy(room: str, table: dict[str, list[str]]) -> None:
    assert [name for name in table[room] if name not in WEB] == []


def test_client_needs_the_standard_library_alone(table: dict[str, list[str]]) -> None:
    assert table["midstep.client"] == []


def test_a_module_that_is_asked_for_is_seen_even_where_its_absence_is_handled(
    tmp_path: Path,
) -> None:
    (tmp_path / "handled.py").write_text("try: import torch\nexcept ImportError: pass")
    (tmp_path / "plain.py").write_text("import json, numpy.linalg")
    (tmp_path / "web.py").write_text("import fastapi")
    assert imported(["handled", "plain", "web"], tmp_path) == {
        "handled": ["torch"],
        "plain": ["numpy", "No module named 'numpy'"],
        "web": ["fastapi"],
    }


def test_writer_of_facts_loads_without_numpy() -> None:
    code = "import sys; sys.modules['numpy'] = None; from midstep.facts import FactsWriter, Lease"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_types_are_shipped() -> None:
    assert Path(midstep.__file__).with_name("py.typed").exists()
