from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from midstep.server.datasets.data_roots import DataRoots
from tests.served import Served, serving, serving_root
from tests.server.datasets import store_dataset


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made


@pytest.fixture(scope="module", params=["one run", "many runs"])
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One server for the tests that leave it as they found it, with a dataset to look at.

    It serves its own run, or a folder of runs and forwards to that one.
    """
    data = store_dataset(tmp_path_factory.mktemp("data") / "small").parent
    folder = tmp_path_factory.mktemp("shared")
    with (
        serving(folder, datasets=DataRoots(data))
        if request.param == "one run"
        else serving_root(folder, data=(data,))
    ) as made:
        yield made
