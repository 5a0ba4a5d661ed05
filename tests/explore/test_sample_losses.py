"""The loss of each sample equals the loss on a batch of one, however it is computed."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor, nn

from midstep.data.random_state import RandomState
from midstep.explore import sample_losses as module
from midstep.explore.known_losses import known_loss
from midstep.explore.loss_shares import sample_weights
from midstep.explore.sample_losses import SampleLosses, sample_losses

B, C, T = 6, 5, 4


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def classes(*shape: int) -> Tensor:
    return torch.randint(C, shape, generator=torch.Generator().manual_seed(2))


SOME_IGNORED = torch.where(classes(B, T) < 2, -100, classes(B, T))
WEIGHT = torch.tensor([0.1, 2.0, 1.0, 0.5, 3.0])
CHANCES, UNIT = noise(B, C).softmax(1), noise(B, 3).sigmoid()


def focal(output: Tensor, target: Tensor) -> Tensor:
    """A loss of a user, with a mean over the batch."""
    log_p = F.log_softmax(output, 1).gather(1, target[:, None]).squeeze(1)
    return (-((1 - log_p.exp()) ** 2) * log_p).mean()


def python_branch(output: Tensor, target: Tensor) -> Tensor:
    """A loss that `vmap` cannot call."""
    error = (output - target).abs().mean()
    return error if error.item() > 0.5 else error**2


def masked(output: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of a mask."""
    rows = F.cross_entropy(output.transpose(1, 2), target, reduction="none")
    return (rows * mask).sum() / mask.sum()


def of_dict(output: dict[str, Tensor], target: Tensor) -> dict[str, Tensor]:
    error = F.mse_loss(output["mean"], target)
    return {"loss": error + output["scale"].square().mean(), "error": error}


KNOWN = {
    "cross entropy": (nn.CrossEntropyLoss(), noise(B, C), classes(B)),
    "cross entropy, sum": (nn.CrossEntropyLoss(reduction="sum"), noise(B, C), classes(B)),
    "cross entropy, weights": (nn.CrossEntropyLoss(weight=WEIGHT), noise(B, C), classes(B)),
    "cross entropy, smoothed": (
        nn.CrossEntropyLoss(weight=WEIGHT, label_smoothing=0.2),
        *(noise(B, C), classes(B)),
    ),
    "cross entropy, chances": (nn.CrossEntropyLoss(weight=WEIGHT), noise(B, C), CHANCES),
    "cross entropy, pixels": (nn.CrossEntropyLoss(), noise(B, C, 3, 3), classes(B, 3, 3)),
    "cross entropy, ignored": (nn.CrossEntropyLoss(), noise(B, C, T), SOME_IGNORED),
    "cross entropy, function": (F.cross_entropy, noise(B, C), classes(B)),
    "nll": (nn.NLLLoss(weight=WEIGHT), F.log_softmax(noise(B, C), 1), classes(B)),
    "mse": (nn.MSELoss(), noise(B, 3), noise(B, 3) + 1),
    "mse, one value": (F.mse_loss, noise(B), noise(B) * 2),
    "l1, sum": (nn.L1Loss(reduction="sum"), noise(B, 3, 2), noise(B, 3, 2) + 1),
    "smooth l1": (nn.SmoothL1Loss(beta=0.3), noise(B, 3), noise(B, 3) * 3),
    "huber": (nn.HuberLoss(delta=0.3), noise(B, 3), noise(B, 3) * 3),
    "bce": (nn.BCELoss(), UNIT, UNIT.flip(0).round()),
    "bce with logits": (
        nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0, 1.0, 0.5])),
        *(noise(B, 3), UNIT.round()),
    ),
}
OTHERS = {
    "focal": (focal, noise(B, C), classes(B)),
    "a branch in Python": (python_branch, noise(B, 3), noise(B, 3) + 1),
    "KL": (nn.KLDivLoss(reduction="batchmean"), F.log_softmax(noise(B, C), 1), CHANCES),
    "cosine": (nn.CosineEmbeddingLoss(), noise(B, C), noise(B, C) + 1, torch.ones(B)),
    "triplet": (nn.TripletMarginLoss(), noise(B, C), noise(B, C) + 1, noise(B, C) * 2),
    "masked tokens": (masked, noise(B, T, C), classes(B, T), (noise(B, T) > -0.5).float()),
    "a dict": (of_dict, {"mean": noise(B, 2), "scale": noise(B)}, noise(B, 2) + 1),
}


def assert_same(losses: Tensor | None, expected: Tensor) -> None:
    """Equal; a sample of which nothing is counted has no loss."""
    torch.testing.assert_close(losses, expected, equal_nan=True)


def alone(value: object, sample: int) -> object:
    """One sample of an input as a batch of one."""
    if isinstance(value, dict):
        return {key: alone(each, sample) for key, each in value.items()}
    return value[sample : sample + 1] if isinstance(value, Tensor) else value


def twin(loss_fn, *inputs: object) -> Tensor:
    """The slow, obvious way."""
    losses = [loss_fn(*(alone(each, sample) for each in inputs)) for sample in range(B)]
    return torch.stack([each["loss"] if isinstance(each, dict) else each for each in losses])


def combines(losses: SampleLosses) -> bool:
    assert losses.losses_B is not None, losses.reason
    every = (*losses.counts, None)
    given = losses.losses_B, float(losses.batch_loss)
    return any(sample_weights(*given, counts) is not None for counts in every)


@pytest.mark.parametrize("case", [*KNOWN.values(), *OTHERS.values()], ids=[*KNOWN, *OTHERS])
def test_losses_are_those_of_batches_of_one_and_combine_to_the_loss(case):
    loss_fn, *inputs = case
    losses = sample_losses(loss_fn, *inputs, batch_loss=loss_fn(*inputs))
    assert_same(losses.losses_B, twin(loss_fn, *inputs))
    assert combines(losses)


@pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN.keys())
def test_losses_of_torch_are_computed_at_once_and_in_pieces(case, monkeypatch):
    loss_fn, *inputs = case
    assert known_loss(loss_fn, inputs, {}) is not None
    monkeypatch.setattr("midstep.explore.known_losses.PIECE_ELEMENTS", 1)
    assert_same(sample_losses(loss_fn, *inputs).losses_B, twin(loss_fn, *inputs))


def of_user(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def test_a_flattened_output_has_several_rows_for_each_sample():
    scores, target = noise(B, T, C), SOME_IGNORED
    flat = scores.flatten(0, 1), target.flatten()
    whole = F.cross_entropy(*flat)
    by_sample = twin(lambda a, b: F.cross_entropy(a[0], b[0]), scores, target)
    losses = sample_losses(F.cross_entropy, *flat, samples=B, batch_loss=whole)
    assert_same(losses.losses_B, by_sample)
    assert losses.counts[0].tolist() == (target >= 0).sum(1).tolist()
    assert combines(losses)
    turned = scores.transpose(0, 1).flatten(0, 1), target.t().flatten()
    again = sample_losses(F.cross_entropy, *turned, samples=B, rows_first=True)
    assert_same(again.losses_B, by_sample)
    other = sample_losses(of_user, *flat, samples=B, batch_loss=whole)
    assert_same(other.losses_B, by_sample)
    assert combines(other)


def contrastive(one: Tensor, other: Tensor) -> Tensor:
    return F.cross_entropy(one @ other.t(), torch.arange(len(one)))


def of_statistics(output: Tensor, target: Tensor) -> Tensor:
    return ((output - output.mean(0)) - (target - target.mean(0))).square().mean()


@pytest.mark.parametrize("loss_fn", [contrastive, of_statistics])
def test_a_loss_that_compares_samples_does_not_combine(loss_fn):
    inputs = noise(B, C), noise(B, C) + noise(C)
    losses = sample_losses(loss_fn, *inputs, batch_loss=loss_fn(*inputs))
    assert not combines(losses)


class Stateful(nn.Module):
    """A loss with every kind of state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.scale = nn.Parameter(torch.ones(3))
        self.calls, self.seen = 0, []

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss = ((output - target).square() * self.scale).mean()
        self.mean.mul_(0.9).add_(0.1 * loss.detach())
        self.calls += 1
        self.seen.append(float(loss.detach()))
        return loss


def function_with_state():
    loss, seen = Stateful(), []

    def call(output: Tensor, target: Tensor) -> Tensor:
        seen.append(1)
        return loss(output, target)

    return call, loss, seen


def test_the_state_of_a_loss_stays_as_it_is():
    inputs = noise(B, 3), noise(B, 3) + 1
    call, loss, seen = function_with_state()
    whole = loss(*inputs)
    before = {name: each.clone() for name, each in loss.state_dict().items()}
    versions = [each._version for each in loss.state_dict().values()]
    for loss_fn in (loss, call, loss.forward):
        losses = sample_losses(loss_fn, *inputs, batch_loss=whole)
        assert combines(losses)
    assert (loss.calls, len(loss.seen), seen) == (1, 1, [])
    assert all(torch.equal(before[name], each) for name, each in loss.state_dict().items())
    assert versions == [each._version for each in loss.state_dict().values()]
    assert loss.scale.grad is None


OWN = torch.Generator().manual_seed(0)


def drawing(output: Tensor, target: Tensor) -> Tensor:
    jitter = torch.randn(()) + random.random() + np.random.rand() + torch.rand((), generator=OWN)
    return (output - target + jitter).square().mean()


def test_random_numbers_that_a_loss_draws_are_those_of_a_copy():
    before, own = RandomState.take(), OWN.get_state()
    losses = sample_losses(drawing, noise(B, 3), noise(B, 3), batch_loss=1.0)
    assert losses.reason == module.DRAWS
    assert RandomState.take().same(before)
    assert torch.equal(OWN.get_state(), own)


def broken(output: Tensor, target: Tensor) -> Tensor:
    raise RuntimeError("no such class")


def with_lock():
    lock = threading.Lock()

    def loss(output: Tensor, target: Tensor) -> Tensor:
        with lock:
            return (output - target).mean()

    return loss


class Counts:
    calls = 0


COUNTS = Counts()


def counting(output: Tensor, target: Tensor) -> Tensor:
    COUNTS.calls += 1
    return (output - target).square().mean()


def test_state_in_a_global_variable_stays_as_it_is():
    assert sample_losses(counting, noise(B), noise(B)).reason is None
    assert COUNTS.calls == 0


@pytest.mark.parametrize(
    ("loss_fn", "inputs", "reason"),
    [
        (broken, (noise(B, 3), noise(B, 3)), "no such class"),
        (nn.MSELoss(), (noise(7), noise(7)), "7 rows for a batch of 6 samples"),
        (nn.MSELoss(), (), "without a tensor"),
        (with_lock(), (noise(B), noise(B)), "may have state"),
        (lambda output: "text", (noise(B),), "returned a str"),
    ],
)
def test_what_cannot_be_computed_has_a_reason(loss_fn, inputs, reason):
    losses = sample_losses(loss_fn, *inputs, samples=B)
    assert losses.losses_B is None
    assert losses.reason is not None
    assert reason in losses.reason


def test_half_precision_is_computed_wider_and_outside_of_autocast():
    output, target = noise(B, C).bfloat16(), classes(B)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole = F.cross_entropy(output, target)
        losses = sample_losses(F.cross_entropy, output, target, batch_loss=whole)
        focused = sample_losses(focal, output, target)
    assert losses.losses_B is not None
    assert losses.losses_B.dtype is torch.float32
    assert_same(losses.losses_B, twin(F.cross_entropy, output.float(), target))
    assert_same(focused.losses_B, twin(focal, output.float(), target))


def test_a_sample_that_is_not_finite_has_a_loss_that_is_not():
    output = noise(B, 3)
    output[2, 1] = math.nan
    losses = sample_losses(nn.MSELoss(), output, noise(B, 3)).losses_B
    assert losses is not None
    assert losses.isnan().nonzero().flatten().tolist() == [2]
