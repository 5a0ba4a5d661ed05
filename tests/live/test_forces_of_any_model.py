"""Forces and similarities of a user's own model: a small transformer in a plain loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from midstep.client import Client
from midstep.core.errors import ClientError
from midstep.live import AttachedRun, attach
from tests.checkers.neutral import wait_until
from tests.live.trainer import in_thread

WORDS, WIDTH = 12, 8


class Small(nn.Module):
    """One block of a transformer that guesses the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.block = nn.TransformerEncoderLayer(
            WIDTH, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.block(self.words(ids)))  # type: ignore[no-any-return]


class Training:
    """Model, optimizer, loader and what the weights were before each step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Small()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loader = DataLoader(torch.randint(WORDS, (64, 6)), batch_size=4)
        self.before: dict[str, Tensor] = {}

    def train(self, run: AttachedRun) -> None:
        for _ in run.epochs(1000):
            for ids in self.loader:
                self.before = {k: v.detach().clone() for k, v in self.model.named_parameters()}
                guesses = self.model(ids[:, :-1])
                loss = nn.functional.cross_entropy(guesses.flatten(0, 1), ids[:, 1:].flatten())
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                run.log(loss=loss)


@pytest.fixture
def training() -> Training:
    return Training()


@pytest.fixture
def client(training: Training, tmp_path: Path) -> Iterator[Client]:
    """Of the training, which stands after two steps."""
    attached = attach(
        training.model,
        training.optimizer,
        training.loader,
        save_dir=tmp_path,
        serve=True,
        port=0,
        start_paused=True,
    )
    with in_thread(attached, training.train):
        wait_until(attached.controller, lambda state: state["parked"])
        assert attached.url is not None
        made = Client(attached.url)
        made.step(2)
        yield made


def named(training: Training) -> dict[str, Tensor]:
    return dict(training.model.named_parameters())


def test_every_matrix_of_a_transformer_has_one_force(training: Training, client: Client) -> None:
    tensors = client.forces.rows()["tensors"]
    matrices = {name for name, weight in training.model.named_parameters() if weight.dim() > 1}
    assert set(tensors) == matrices
    for name in tensors:
        found = client.forces.rows(name)
        moved = (named(training)[name] - training.before[name]).detach().double()
        columns = found["features"]
        assert (found["step"], found["rows"], found["neutral"]) == (2, len(moved), len(moved))
        assert set(columns["som_magnitude"]) == {0.0}
        assert set(columns["verdict"]) == {"neutral"}
        torch.testing.assert_close(
            torch.tensor(columns["grad_magnitude"], dtype=torch.float64),
            moved.flatten(1).norm(dim=1),
            rtol=1e-4,
            atol=1e-9,
        )


def test_detail_is_what_the_optimizer_did(training: Training, client: Client) -> None:
    name = "block.self_attn.in_proj_weight"
    found = client.forces.detail(5, tensor=name)
    moved = (named(training)[name] - training.before[name])[5].detach()
    assert found["combined"] == found["grad_delta"]
    assert found["som_delta"] == [0.0] * WIDTH
    assert found["cos_grad_som"] == 0.0
    torch.testing.assert_close(torch.tensor(found["combined"]), moved, rtol=0, atol=1e-7)


@pytest.mark.parametrize("source", ["weights", "grad_delta"])
def test_similarities_are_those_of_the_rows(
    training: Training, client: Client, source: str
) -> None:
    name = "head.weight"
    now = named(training)[name].detach().double()
    rows = now if source == "weights" else now - training.before[name].double()
    unit = nn.functional.normalize(rows, dim=1)
    found: dict[str, Any] = client.forces.cosine_matrix(source, tensor=name)
    matrix = torch.tensor(found["matrix"], dtype=torch.float64)
    torch.testing.assert_close(matrix, unit @ unit.T, rtol=0, atol=1e-6)


def test_there_are_no_targets_and_no_rows_in_a_bias(client: Client) -> None:
    with pytest.raises(ClientError, match="no targets for the rows of") as caught:
        client.forces.cosine_matrix("som_targets")
    assert caught.value.status == 409
    with pytest.raises(ClientError, match=r"head\.bias is 1-dimensional") as caught:
        client.forces.rows("head.bias")
    assert caught.value.status == 409
