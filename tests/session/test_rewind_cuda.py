"""The same promises where there is a CUDA device: snapshots on the host, bits on the device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from midstep.core.commands.catalog import BackPayload
from midstep.session.config import SessionConfig
from midstep.session.fit.trainer import Trainer, TrainerReplay
from midstep.session.rewind.back import Rewind
from midstep.session.rewind.certificate import certify
from midstep.session.rewind.snapshot_ring import SnapshotRing
from midstep.session.state.training_parts import TrainingParts
from tests.session.same import assert_same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def make(*, amp: bool) -> Trainer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
    data = torch.utils.data.TensorDataset(torch.rand(64, 16), torch.rand(64, 1))
    config = SessionConfig(
        device="cuda", amp=amp, seed=1, data_order_policy="epoch_reseed", save_dir=Path("unused")
    )
    model.to("cuda")
    parts = TrainingParts(
        model=model,
        optimizers=[torch.optim.Adam(model.parameters())],
        loss_fn=nn.MSELoss(),
        train_loader=torch.utils.data.DataLoader(data, batch_size=8, shuffle=True),
    )
    return Trainer(parts, config)


@pytest.mark.parametrize("amp", [False, True])
def test_back_and_forward_again_gives_the_same_bits_on_the_device(amp: bool) -> None:
    with make(amp=amp) as training:
        rewinder = Rewind(
            training.state,
            SnapshotRing(1 << 28, 64),
            TrainerReplay(training),
            moved=lambda *_, **__: None,
            show_phase=lambda _: None,
        )
        for step in range(12):
            if rewinder.ring.is_due(step):
                rewinder.take_snapshot()
            if step < 11:
                training.advance()
        before = training.state.take().to_host().state_tree()
        held = [each for each in (rewinder.ring.nearest(step) for step in range(12)) if each]
        assert held
        assert all(each.to_host() is each for each in held)
        slices = rewinder.back(BackPayload(n=7))
        while True:
            try:
                next(slices)
            except StopIteration as end:
                told = end.value
                break
        assert told["exact"]
        assert training.step == 4
        for _ in range(7):
            training.advance()
        assert_same(training.state.take().to_host().state_tree(), before)


def test_a_training_on_the_device_is_certified() -> None:
    with make(amp=True) as training:
        assert certify(training, 4).exact
        assert training.step == 0
