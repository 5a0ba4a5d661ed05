from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made
