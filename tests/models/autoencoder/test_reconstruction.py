"""Reconstruction counts real tokens only, and equals a slow sum over them."""

from __future__ import annotations

import math

import pytest
import torch

from midstep.models.autoencoder import (
    predicted_ids,
    reconstruction_errors,
    reconstruction_loss,
    training_loss,
)
from tests.models.autoencoder.samples import SPECS, batch_of, small_model

SPEC = SPECS["events"]


def slow_errors(reconstruction, batch, beta: float) -> list[float]:
    """Sample by sample and token by token."""
    errors = []
    for row, ids in enumerate(batch["tokens_id"].tolist()):
        cont, types = [], []
        for token, type_id in enumerate(ids):
            if type_id == 0:
                continue
            difference = (
                reconstruction["tokens_cont"][row, token] - batch["tokens_cont"][row, token]
            )
            cont.append(float(difference.square().mean()))
            logits = reconstruction["tokens_id"][row, token].tolist()
            types.append(math.log(sum(map(math.exp, logits))) - logits[type_id])
        difference = reconstruction["globals"][row] - batch["globals"][row]
        of_globals = beta * float(difference.square().mean())
        errors.append(sum(cont) / len(cont) + sum(types) / len(types) + of_globals)
    return errors


@pytest.mark.parametrize("beta", [0.0, 1.0, 10.0])
def test_loss_is_the_slow_sum_over_real_tokens(beta: float) -> None:
    model, batch = small_model("events"), batch_of("events")
    with torch.no_grad():
        output = model(batch)
    expected = slow_errors(output.reconstruction, batch, beta)
    errors = reconstruction_errors(output.reconstruction, batch, SPEC, globals_beta=beta)
    assert errors["loss"].tolist() == pytest.approx(expected, rel=1e-5)
    loss = reconstruction_loss(output, batch, SPEC, globals_beta=beta)
    assert loss.keys() == {"loss", "cont", "id", "globals"}
    assert float(loss["loss"]) == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def test_event_without_real_tokens_costs_only_its_globals() -> None:
    model, batch = small_model("events"), batch_of("events")
    batch["tokens_id"][0] = 0
    with torch.no_grad():
        errors = reconstruction_errors(model(batch).reconstruction, batch, SPEC)
    assert (errors["cont"][0], errors["id"][0]) == (0, 0)
    assert errors["loss"][0] == errors["globals"][0] > 0


def test_training_loss_adds_the_commitment() -> None:
    model, batch = small_model("events", latent_space="vq"), batch_of("events")
    output = model(batch)
    parts = training_loss(output, batch, SPEC)
    expected = reconstruction_loss(output, batch, SPEC)["loss"] + output.losses["commitment"]
    assert output.losses["commitment"] > 0
    assert torch.equal(parts["loss"], expected)


def test_ids_reconstruct() -> None:
    model, batch = small_model("events"), batch_of("events")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        training_loss(model(batch), batch, SPEC)["loss"].backward()
        optimizer.step()
    real = batch["tokens_id"] != 0
    ids = predicted_ids(model(batch).reconstruction)
    assert (ids == batch["tokens_id"])[real].float().mean() > 0.95
    assert (ids > 0).all()


def test_padding_is_never_predicted() -> None:
    logits = torch.tensor([[[9.0, 1.0, 2.0, 0.0]]])
    assert predicted_ids({"tokens_id": logits}).tolist() == [[2]]
