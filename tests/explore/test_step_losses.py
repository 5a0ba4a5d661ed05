"""What a step computed is reduced once, in time, and in the right order of rows."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from midstep.explore import step_losses
from midstep.explore.step_losses import StepLosses
from midstep.explore.work_budget import WorkBudget

B, T, C = 4, 3, 5
TOKENS = torch.arange(B * T).reshape(B, T) % C
SCORES = torch.randn(B, T, C, generator=torch.Generator().manual_seed(0))
LOSSES = F.cross_entropy(SCORES.transpose(1, 2), TOKENS, reduction="none").mean(1)
LOSS = nn.CrossEntropyLoss()


def call(steps: StepLosses, scores: Tensor, target: Tensor) -> None:
    steps.loss_called(1, (scores, target), {}, LOSS(scores, target), batch=[TOKENS, TOKENS])


@pytest.mark.parametrize("held_bytes", [2**20, 0])
def test_the_order_of_flattened_rows_is_that_of_the_loaders_targets(held_bytes, monkeypatch):
    monkeypatch.setattr(step_losses, "HELD_BYTES", held_bytes)
    for turned in (False, True):
        steps = StepLosses(LOSS, "")
        scores, target = SCORES, TOKENS
        if turned:
            scores, target = scores.transpose(0, 1), target.t()
        for _ in range(2):  # the second time the order is known
            call(steps, scores.flatten(0, 1), target.flatten())
            shown = steps.take([[TOKENS, TOKENS]])(1, 3, 1, B)
            torch.testing.assert_close(shown["losses"], LOSSES[1:3])
        assert shown["predictions"].tolist() == SCORES.argmax(2)[1:3].tolist()


def test_a_step_is_reduced_once_for_all_of_its_readers(monkeypatch):
    steps = StepLosses(LOSS, "")
    call(steps, SCORES.flatten(0, 1), TOKENS.flatten())
    results = steps.take([[TOKENS, TOKENS]])
    first = dict(results(0, 2, 1, B))
    monkeypatch.setattr(step_losses, "sample_losses", None)
    assert torch.equal(results(0, B, 1, B)["losses"][:2], first["losses"])
    assert steps.take([TOKENS]) == ""


def test_a_slow_loss_is_computed_as_often_as_its_share_of_the_time_allows(monkeypatch):
    seconds = {"now": 0.0, "worked": 0.0}
    pausing = [False]
    steps = StepLosses(LOSS, "", is_pausing=lambda: pausing[0])
    steps._budget = WorkBudget(
        lambda: pausing[0], lambda: seconds["now"], lambda: seconds["worked"]
    )
    real = step_losses.sample_losses

    def slow(*arguments, **named):
        seconds["worked"] += 0.05
        return real(*arguments, **named)

    monkeypatch.setattr(step_losses, "sample_losses", slow)

    def is_computed() -> bool:
        call(steps, SCORES[:, 0], TOKENS[:, 0])
        shown = steps.take([[SCORES, TOKENS]])(0, B, 1, B)
        assert shown["predictions"].tolist() == SCORES[:, 0].argmax(1).tolist()
        if "losses" in shown:
            return True
        assert shown["loss_note"].startswith("Computing the losses of single samples takes 50 ms")
        return False

    seen = []
    for seconds["now"] in (0.0, 1.0, 2.0, 3.0, 4.0, 6.0):
        seen.append(is_computed())
    assert seen == [True, False, False, True, False, True]
    pausing[0] = True
    assert is_computed()
