"""The names of the room load when first used, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

import midstep.influence


@pytest.mark.parametrize("name", midstep.influence.__all__)
def test_every_name_loads_and_says_what_it_is(name: str) -> None:
    assert getattr(midstep.influence, name).__doc__


def test_names_are_sorted_and_each_has_a_home() -> None:
    assert midstep.influence.__all__ == sorted(midstep.influence.__all__)
    assert set(midstep.influence._HOME) == set(midstep.influence.__all__)


def test_import_of_the_room_loads_no_torch() -> None:
    code = "import sys, midstep.influence; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
