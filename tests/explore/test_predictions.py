"""What the output says of each sample, for the shown samples alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from midstep.explore.predictions import MOST_TOKENS, predict

B = 4


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def own(output: Tensor, *_: Tensor) -> Tensor:
    return output.mean()


CLASSES = torch.arange(B)
SCORES, MAPS, TOKENS = noise(B, 5), noise(B, 5, 6, 6), noise(B, 7, 5)


@pytest.mark.parametrize(
    ("loss_fn", "inputs", "kind", "values"),
    [
        (nn.CrossEntropyLoss(), (SCORES, CLASSES), "class", SCORES.argmax(1)),
        (own, (SCORES, noise(B, 5), CLASSES), "class", SCORES.argmax(1)),
        (own, (SCORES, noise(B, 5)), "value", SCORES),
        (nn.MSELoss(), (noise(B, 1), noise(B, 1)), "value", noise(B, 1)[:, 0]),
        (nn.BCEWithLogitsLoss(), (noise(B), noise(B)), "class", (noise(B) > 0).long()),
        (nn.BCELoss(), (noise(B, 1), noise(B, 1)), "class", (noise(B, 1)[:, 0] > 0.5).long()),
        (nn.BCEWithLogitsLoss(), (SCORES, SCORES), "classes", (SCORES > 0).long()),
        (
            nn.BCEWithLogitsLoss(),
            *((noise(B, 1, 6, 6),) * 2, "map", (noise(B, 1, 6, 6)[:, 0, ::2, ::2] > 0).byte()),
        ),
        (
            nn.CrossEntropyLoss(),
            *((MAPS, MAPS.argmax(1)), "map", MAPS.argmax(1)[:, ::2, ::2]),
        ),
        (
            nn.CrossEntropyLoss(),
            *((TOKENS.transpose(1, 2), TOKENS.argmax(2)), "tokens", TOKENS.argmax(2)),
        ),
        (
            nn.CrossEntropyLoss(),
            *((TOKENS.flatten(0, 1), TOKENS.argmax(2).flatten()), "tokens", TOKENS.argmax(2)),
        ),
        (own, (TOKENS, TOKENS.argmax(2)), "tokens", TOKENS.argmax(2)),
    ],
)
def test_predictions_of_the_shown_samples(loss_fn, inputs, kind, values):
    shown = predict(loss_fn, inputs, {}, samples=B, first=1, stop=3, stride=2)
    assert shown is not None
    assert shown.kind == kind
    assert torch.equal(shown.values, values[1:3])
    assert (shown.probabilities is not None) == (kind == "class")


def test_long_sequences_and_large_values_are_bounded():
    scores, target = noise(2, 100, 5), torch.zeros(2, 100, dtype=torch.long)
    shown = predict(own, (scores, target), {}, samples=2, first=0, stop=2)
    assert shown is not None
    assert shown.values.shape == (2, MOST_TOKENS)
    large = torch.zeros(2, 3, 500, 500)
    assert predict(nn.MSELoss(), (large, large), {}, samples=2, first=0, stop=2) is None
    assert predict(own, (torch.zeros(7, 3), target), {}, samples=2, first=0, stop=2) is None
