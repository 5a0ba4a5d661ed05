from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.client import Client
from tests.served import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as small_run:
        yield small_run


@pytest.fixture
def client(served: Served) -> Client:
    return Client(f"{served.url}/#token={served.tokens.control}")
