from __future__ import annotations

import functools
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
import pytest
import typer.main

from midstep.server.datasets.data_roots import DataRoots
from tests.served import Served, serving, serving_root
from tests.server.datasets import store_dataset


@pytest.fixture(scope="session", autouse=True)
def built_once() -> Iterator[None]:
    """The commands of the terminal are built once: that takes longer than most of them run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


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


@pytest.fixture
def most_memory() -> Callable[[int], AbstractContextManager[None]]:
    """Inside the block, this process may take so much more memory at most than it has now."""

    @contextmanager
    def limited(more_bytes: int) -> Iterator[None]:
        # Of the address space, since nothing else is limited by the kernel: a list of 6 GB raises
        # MemoryError at once, on any machine.
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        now = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    return limited
