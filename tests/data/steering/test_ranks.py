"""Real process groups (gloo): the world changes between kills, the batches do not."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as group

from midstep.core.errors import DatasetError
from midstep.data import JASPERSteeringDataset, SteeringLoader, create_loader, validate_first_batch

STEPS = 4
"""Global steps in the life of a world."""


def in_ranks(world: int, folder: Path, work: Callable[[int], None]) -> list[int | None]:
    """Run `work(rank)` in `world` forked processes that form a group; gives their exit codes."""
    meeting = folder / f"meeting-{world}-{os.urandom(4).hex()}"

    def live(rank: int) -> None:
        group.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world
        )
        work(rank)

    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=live, args=(rank,)) for rank in range(world)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    return [child.exitcode for child in children]


def make(folder: Path) -> SteeringLoader:
    return create_loader(folder, "train", 12, n_neg=2, drop_last=False)


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def seen(batch: dict[str, torch.Tensor]) -> list[Any]:
    columns = batch["pair_id"].tolist(), batch["steering_variant"].tolist()
    return [*zip(*columns, batch["negative_embs"].sum(dim=(1, 2)).tolist(), strict=True)]


def test_world_may_change_between_kills(folder: Path, tmp_path: Path) -> None:
    alone = make(folder)
    expected = [seen(batch) for _ in range(4) for batch in alone]  # four epochs of four batches
    found: list[Any] = []
    for life, world in enumerate((1, 2, 4, 3)):

        def work(rank: int, life: int = life) -> None:
            loader = make(folder)
            assert loader.ranks.rank == rank
            if life:
                loader.load_state_dict(read(tmp_path / f"state-{life - 1}.json"))
            drawn: list[Any] = []
            while len(drawn) < STEPS - 1 + (life == 1):  # so that kills come inside epochs too
                for batch in loader:
                    drawn.append(seen(batch))
                    if len(drawn) == STEPS - 1 + (life == 1):
                        break
            write(tmp_path / f"seen-{life}-{rank}.json", drawn)
            if rank == 0:
                write(tmp_path / f"state-{life}.json", loader.state_dict())
            group.barrier()
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_ranks(world, tmp_path, work) == [-signal.SIGKILL] * world
        parts = [read(tmp_path / f"seen-{life}-{rank}.json") for rank in range(world)]
        found += [[each for part in step for each in part] for step in zip(*parts, strict=True)]
    plain = json.loads(json.dumps(expected))
    assert found == plain[: len(found)]
    assert len(found) == 13


@pytest.mark.parametrize(
    ("epochs", "message"),
    [((3, 3), None), ((3, 4), "epoch is 4 on rank 1, 3 on rank 0")],
)
def test_ranks_in_different_epochs_are_refused(
    folder: Path, tmp_path: Path, epochs: tuple[int, int], message: str | None
) -> None:
    def work(rank: int) -> None:
        loader = make(folder)
        loader.set_epoch(epochs[rank])
        try:
            validate_first_batch(loader)
            told = None
        except DatasetError as error:
            told = error.problems[0]
        write(tmp_path / f"told-{rank}.json", told)
        group.destroy_process_group()

    assert in_ranks(2, tmp_path, work) == [0, 0]
    assert [read(tmp_path / f"told-{rank}.json") for rank in range(2)] == [message] * 2


def test_ranks_with_common_pairs_are_refused(folder: Path, tmp_path: Path) -> None:
    def work(rank: int) -> None:
        loader = make(folder)
        same = JASPERSteeringDataset(folder).batch(range(6))
        loader.first_batch = lambda: same  # type: ignore[method-assign]
        try:
            validate_first_batch(loader)
        except DatasetError as error:
            write(tmp_path / f"told-{rank}.json", " ".join(error.problems))
        group.destroy_process_group()

    in_ranks(2, tmp_path, work)
    assert "on rank 1 and on rank 0" in read(tmp_path / "told-0.json")
