"""Parts that draw random numbers and learn codebooks resume and repeat under a session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from midstep.core.sample_spec import SampleKind
from midstep.models.autoencoder import training_loss
from midstep.session import Session, SessionConfig
from tests.checkers.resume import assert_session_resumes
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

DRAWING = [
    ("events", "diffusion", "vq", "diffusion"),
    ("image", "gan", "residual_vq", "gan"),
]


class Samples(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, kind: SampleKind) -> None:
        self.batch = batch_of(kind, 24)

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {name: values[index] for name, values in self.batch.items()}


def session_maker(kind: SampleKind, *parts: str) -> Callable[[dict[str, Any]], Session]:
    def make(settings: dict[str, Any]) -> Session:
        model = small_model(kind, *parts)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        loader = DataLoader(Samples(kind), batch_size=8, shuffle=True)
        config = SessionConfig(seed=1, data_order_policy="epoch_reseed", **settings)
        session = Session(model, optimizer, None, loader, config=config)
        session.training_step(lambda net, batch: training_loss(net(batch), batch, SPECS[kind]))
        return session

    return make


@pytest.mark.parametrize(("kind", "encoder", "latent_space", "decoder"), DRAWING)
def test_a_session_resumes_to_the_same_bits(
    kind: SampleKind, encoder: str, latent_space: str, decoder: str, tmp_path: Path
) -> None:
    make = session_maker(kind, encoder, latent_space, decoder)
    assert_session_resumes(make, tmp_path, kills=[2], steps=4)


@pytest.mark.parametrize(("kind", "encoder", "latent_space", "decoder"), DRAWING)
def test_steps_made_twice_from_one_snapshot_are_the_same(
    kind: SampleKind, encoder: str, latent_space: str, decoder: str, tmp_path: Path
) -> None:
    make = session_maker(kind, encoder, latent_space, decoder)
    with make({"save_dir": tmp_path, "run_name": "run"}) as session:
        session.fit(steps=5)
        assert session.certify(3).exact
