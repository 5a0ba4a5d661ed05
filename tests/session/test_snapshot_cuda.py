"""The same promises where there is a CUDA device: its generator, its tensors, its way to disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.data.random_state import RandomState
from midstep.session.checkpoint.checkpoint_store import CheckpointStore
from midstep.session.state.snapshot import Snapshot
from tests.session.same import assert_same

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


class Training:
    """Dropout on the device, a fused optimizer, a scaler and a sampler's generator."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01, fused=True)
        self.scaler = torch.amp.GradScaler("cuda", init_scale=16.0, growth_interval=3)
        self.draw = torch.Generator(device="cuda").manual_seed(1)
        self.losses: list[float] = []

    @property
    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "scaler": self.scaler}

    def step(self) -> None:
        self.optimizer.zero_grad()
        batch = torch.randn(16, 8, device="cuda", generator=self.draw)
        loss = self.model(batch).square().mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.losses.append(loss.item())


@needs_cuda
@pytest.mark.parametrize("to_host", [True, False])
def test_a_training_on_the_device_goes_on_bit_by_bit(tmp_path: Path, to_host: bool) -> None:
    whole = Training()
    for _ in range(4):
        whole.step()
    own = {"own": whole.draw}
    kept = Snapshot.take(whole.parts, step=4, generators=own, to_host=to_host)
    place = "cpu" if to_host else "cuda"
    assert kept.states["model"]["0.weight"].device.type == place
    assert kept.to_host().states["model"]["0.weight"].device.type == "cpu"
    assert (kept.to_host() is kept) == to_host
    CheckpointStore(tmp_path).save(kept)
    for _ in range(4):
        whole.step()
    wanted = Snapshot.take(whole.parts, step=8, generators=own).state_tree()
    for snapshot in (kept, CheckpointStore(tmp_path).load(), kept):
        again = Training()
        torch.rand(3, device="cuda")
        snapshot.restore(again.parts, generators={"own": again.draw})
        for _ in range(4):
            again.step()
        assert again.losses == whole.losses[4:]
        found = Snapshot.take(again.parts, step=8, generators={"own": again.draw})
        assert_same(found.state_tree(), wanted)


@needs_cuda
def test_the_generator_of_every_device_is_put_back() -> None:
    torch.cuda.init()
    state = RandomState.take()
    assert len(state.cuda) == torch.cuda.device_count()
    first = torch.rand(4, device="cuda")
    state.restore()
    assert torch.equal(torch.rand(4, device="cuda"), first)


def test_states_of_more_devices_than_there_are_is_refused() -> None:
    here = torch.cuda.device_count()
    tree = RandomState.take().state_tree()
    tree["cuda"] = [torch.zeros(16, dtype=torch.uint8)] * (here + 1)
    with pytest.raises(ConfigError, match=f"{here + 1} CUDA devices, this machine has {here}"):
        RandomState.from_tree(tree).restore()
