"""The share of each sample in a loss follows from its structure, not from a loss that agrees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.batch_influence import batch_influence
from midstep.influence.gradients.sample_gradients import take_samples
from midstep.influence.gradients.sample_shares import weighted_gradients
from midstep.models.causal_lm import CausalLM, CausalLMConfig

COUNTS = [2, 7, 3, 9, 4]
TOKENS = 11


def language_model(*, at_start: bool) -> nn.Module:
    torch.manual_seed(0)
    model = CausalLM(CausalLMConfig(vocab_size=TOKENS, width=8, layers=1, heads=2, tied=False))
    if at_start:  # every token has the loss log V, whatever it is
        nn.init.zeros_(model.head.weight)
    return model.double().eval()


def texts(counts=COUNTS, seed: int = 0) -> dict[str, Tensor]:
    """Token ids, and labels of which only the last ones count."""
    drawn = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, TOKENS, (len(counts), 10), generator=drawn)
    labels = torch.full_like(ids, -100)
    for row, count in enumerate(counts):
        labels[row, 10 - count :] = ids[row, 10 - count :]
    return {"ids": ids, "labels": labels}


def token_mean(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The loss of every causal language model of transformers: a mean over counted tokens."""
    logits, labels = model(batch["ids"])[:, :-1], batch["labels"][:, 1:]
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def sample_mean(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    rows = range(len(batch["ids"]))
    return torch.stack([token_mean(model, take_samples(batch, [row])) for row in rows]).mean()


def token_sum(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits, labels = model(batch["ids"])[:, :-1], batch["labels"][:, 1:]
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum"
    )


def shares(loss_of, batch, model=None, **options) -> Tensor:
    model = language_model(at_start=False) if model is None else model
    weights = {name: each.detach() for name, each in model.named_parameters()}
    options = {"kept": 99, **options}
    return weighted_gradients(model, loss_of, batch, weights, **options).shares_B


def counted(counts=COUNTS) -> Tensor:
    return torch.tensor(counts, dtype=torch.float64)


@pytest.mark.parametrize("together", [True, False], ids=["vmap", "loop"])
@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("kept", [99, 2])
def test_a_mean_over_tokens_is_weighted_by_their_numbers(at_start, together, kept) -> None:
    model = language_model(at_start=at_start)
    computed = shares(token_mean, texts(), model, together=together, kept=kept)
    torch.testing.assert_close(computed, counted() / sum(COUNTS))


@pytest.mark.parametrize("at_start", [True, False])
def test_equal_losses_do_not_make_a_mean_over_tokens_one_over_samples(at_start) -> None:
    """Each contribution against g_i · g_j of one backward pass a sample."""
    model, batch = language_model(at_start=at_start), texts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = []
    for at in range(len(COUNTS)):
        model.zero_grad()
        token_mean(model, take_samples(batch, [at])).backward()
        rows.append(torch.cat([each.grad.flatten() for each in model.parameters()]))
    model.zero_grad()
    grads = torch.stack(rows)
    computed = batch_influence(model, [optimizer], token_mean, batch)
    true = -0.01 * (grads @ grads.T) * counted() / sum(COUNTS)
    torch.testing.assert_close(computed.contribution_SS, true)
    assert any("different shares" in note and "0.08 to 0.36" in note for note in computed.notes)


def test_equal_weights_stay_exactly_equal() -> None:
    computed = shares(sample_mean, texts(), together=False)
    assert torch.equal(computed, torch.full((5,), 0.2, dtype=torch.float64))
    assert torch.equal(shares(token_mean, texts([4] * 5)), computed)


def test_a_sum_counts_every_sample_whole() -> None:
    assert torch.equal(shares(token_sum, texts()), torch.ones(5, dtype=torch.float64))


def test_class_weights_are_shares_too() -> None:
    torch.manual_seed(1)
    model = nn.Linear(4, 3).double()
    classes = torch.tensor([0.5, 2.0, 4.0], dtype=torch.float64)
    x, y = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])

    def loss_of(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1], weight=classes)

    expected = classes[y] / classes[y].sum()
    torch.testing.assert_close(shares(loss_of, (x, y), model), expected)


def test_each_micro_batch_is_a_mean_of_its_own() -> None:
    computed = shares(token_mean, texts(), micro_batches=[2, 3])
    first, second = counted()[:2], counted()[2:]
    torch.testing.assert_close(
        computed, torch.cat([first / first.sum(), second / second.sum()]) / 2
    )
    assert torch.equal(
        shares(token_sum, texts(), micro_batches=[2, 3]), torch.full((5,), 0.5).double()
    )


def test_the_same_sample_twice_has_the_same_share() -> None:
    batch = {name: part[[0, 1, 1, 1]] for name, part in texts().items()}
    computed = shares(token_mean, batch)
    torch.testing.assert_close(computed, torch.tensor([2.0, 7.0, 7.0, 7.0]).double() / 23)
    only = {name: part[[1, 1, 1]] for name, part in texts().items()}
    torch.testing.assert_close(shares(token_mean, only), torch.full((3,), 1 / 3).double())


def test_a_sample_without_a_counted_token_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"loss of sample 2 alone is nan.*counted token"):
        shares(token_mean, texts([2, 7, 0, 9]))


def penalised_sum(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return token_sum(model, batch) + model.head.weight.square().sum()


def spread(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """A mean over tokens, and a term between samples."""
    rows = model(batch["ids"]).mean(1)
    return token_mean(model, batch) + rows.var(0, unbiased=False).sum()


@pytest.mark.parametrize("loss_of", [penalised_sum, spread])
def test_other_losses_are_refused(loss_of) -> None:
    with pytest.raises(ConfigError, match=r"neither the mean .* nor the sum"):
        shares(loss_of, texts())


def test_float32_and_half_precision_give_the_same_shares() -> None:
    for dtype, close in ((torch.float32, 1e-3), (torch.bfloat16, 0.05)):
        computed = shares(token_mean, texts(), language_model(at_start=False).to(dtype)).double()
        assert float((computed * sum(COUNTS) / counted() - 1).abs().max()) <= close
