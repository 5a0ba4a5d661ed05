from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests that leave it as they found it."""
    with serving(tmp_path_factory.mktemp("shared")) as made:
        yield made
