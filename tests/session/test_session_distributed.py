"""Two ranks with a DistributedSampler: killed together, they go on bit for bit."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from midstep.session import Session, SessionConfig
from midstep.session.checkpoint.fingerprint import hash_value
from tests.checkers.kill import Acknowledge, ForkedChild
from tests.data.order.loaders import Augmented, as_rows, seed_everything
from tests.session.sessions import Net

WORLD, STEPS = 2, 6


def rank_of(folder: Path, name: str, life: int, rank: int, policy: str, kill: int | None) -> Any:
    def work(acknowledge: Acknowledge) -> None:
        torch.set_num_threads(1)
        store = f"file://{folder / f'{name}-{life}.store'}"
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
        seed_everything(4 + rank)
        dataset = Augmented(11)
        loader = DataLoader(
            dataset,
            batch_size=2,
            sampler=DistributedSampler(dataset, WORLD, rank),
            collate_fn=as_rows,
        )
        model = DistributedDataParallel(Net())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        config = SessionConfig(
            save_dir=folder,
            run_name=f"{name}-rank{rank}",
            resume="auto",
            checkpoint_every_steps=1,
            data_order_policy=policy,  # type: ignore[arg-type]
            seed=5 if policy != "user" else None,
        )
        with Session(model, optimizer, None, loader, config=config) as session:
            session.training_step(
                lambda net, batch: net(torch.tensor(batch, dtype=torch.float32)).square().mean()
            )

            @session.on_step
            def tell(record: Any) -> None:
                acknowledge([record.step, list(record.sample_ids), record.loss.hex()])
                session.checkpoint_writer.wait()
                if record.step == kill:
                    os.kill(os.getpid(), signal.SIGKILL)

            session.fit(steps=STEPS)
            tree = session.trainer.state.take().state_tree()
            acknowledge({name: hash_value(part) for name, part in tree.items()})
        dist.destroy_process_group()

    return work


def lives(folder: Path, name: str, policy: str, kills: list[int | None]) -> list[list[Any]]:
    """What each rank told over all lives."""
    told: list[list[Any]] = [[] for _ in range(WORLD)]
    for life, kill in enumerate(kills):
        ranks = range(WORLD)
        children = [ForkedChild(rank_of(folder, name, life, rank, policy, kill)) for rank in ranks]
        for rank, child in enumerate(children):
            told[rank] += child.wait()
            assert child.status == (0 if kill is None else -signal.SIGKILL), told[rank][-1]
    return told


@pytest.mark.parametrize("policy", ["epoch_reseed", "fixed_order", "user"])
def test_two_ranks_killed_together_go_on_bit_for_bit(policy, tmp_path):
    whole = lives(tmp_path, "whole", policy, [None])
    killed = lives(tmp_path, "killed", policy, [2, 5, None])
    for expected, found in zip(whole, killed, strict=True):
        steps = {message[0]: message[1:] for message in found[:-1]}
        assert steps == {message[0]: message[1:] for message in expected[:-1]}
        assert found[-1] == expected[-1]
    first = [[i for message in told[:3] for i in message[1]] for told in whole]
    assert {*first[0], *first[1]} == set(range(11)), "an epoch of both ranks has every sample"
    if policy == "epoch_reseed":
        assert first[0] != [i for message in whole[0][3:6] for i in message[1]]
