"""Which samples moved which loss: against a slow twin, and against what a true step did."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.influence.batch_influence import batch_influence
from midstep.influence.gradients.sample_gradients import sample_count, sample_gradients, take_sample

SIZES = {"samples": 9, "width": 5}


class Attending(nn.Module):
    """A norm, attention, a module with two names, a weight in two modules, one used nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(1, 4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 3, bias=False)
        self.again = self.out
        self.tied = nn.Linear(4, 3)
        self.tied.weight = self.out.weight
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.into(x[..., None])
        made = self.norm(made + self.attention(made, made, made, need_weights=False)[0])
        return self.out(made.mean(1)) + self.again(made[:, 0]) + self.tied(made[:, 1])


MODELS = {
    "mlp": lambda: nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)),
    "moody": lambda: nn.Sequential(
        nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3)
    ),
    "attention": Attending,
}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}),
    "sgd decay": (torch.optim.SGD, {"weight_decay": 0.1}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "dampened": (torch.optim.SGD, {"momentum": 0.8, "dampening": 0.3}),
    "nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.05}),
    "adam": (torch.optim.Adam, {"weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.2}),
    "amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
}


def loss_of(model: nn.Module, batch: dict) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch["x"]), batch["y"])


def batch_of(seed: int) -> dict[str, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(SIZES["samples"], SIZES["width"], generator=drawn, dtype=torch.float64)
    return {"x": x, "y": torch.randint(0, 3, (SIZES["samples"],), generator=drawn)}


def model_of(name: str) -> nn.Module:
    torch.manual_seed(4)
    return MODELS[name]().double().eval()


def trained(name: str, optimizer: str, lr: float, *, sign: float = 1.0, clip: float | None = None):
    """A model after some steps, and how it was before the last of them."""
    model = model_of(name)
    kind, settings = OPTIMIZERS[optimizer]
    made = kind(model.parameters(), lr=lr, maximize=sign < 0, **settings)
    for step in range(4):
        before = copy.deepcopy(model)
        made.zero_grad()
        loss_of(model, batch_of(step)).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        made.step()
    made.zero_grad()
    return model, made, before, batch_of(3)


def slow_gradients(model: nn.Module, batch: dict) -> torch.Tensor:
    """One backward pass a sample, every parameter in a row."""
    rows = []
    for at in range(len(batch["x"])):
        model.zero_grad()
        loss_of(model, {name: part[at : at + 1] for name, part in batch.items()}).backward()
        rows.append(torch.cat([gradient_of(each).flatten() for each in model.parameters()]))
    model.zero_grad()
    return torch.stack(rows)


def gradient_of(parameter: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


def moved(before: nn.Module, after: nn.Module) -> torch.Tensor:
    pairs = zip(before.parameters(), after.parameters(), strict=True)
    return torch.cat([(new - old).detach().flatten() for old, new in pairs])


def losses(model: nn.Module, batch: dict) -> torch.Tensor:
    with torch.no_grad():
        return nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="none")


@pytest.mark.parametrize("together", [True, False], ids=["vmap", "loop"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_samples_equal_one_backward_pass_each(name, together):
    model, batch = model_of(name), batch_of(0)
    weights = {name: each.detach() for name, each in model.named_parameters()}
    calls: list[int] = []

    def counted(model, batch):
        calls.append(len(batch["x"]))
        return loss_of(model, batch)

    found = list(sample_gradients(model, counted, batch, weights, together=together))
    assert calls == ([1] if together else [1] * 9)
    torch.testing.assert_close(torch.cat([rows for _, rows in found]), slow_gradients(model, batch))
    torch.testing.assert_close(torch.cat([row for row, _ in found]), losses(model, batch))
    assert all(each.grad is None for each in model.parameters())
    assert all(isinstance(model.get_parameter(each), nn.Parameter) for each in weights)


@pytest.mark.parametrize("name", MODELS)
def test_contributions_equal_the_slow_twin_with_plain_descent(name):
    model, optimizer, _, batch = trained(name, "sgd", 0.01)
    grads = slow_gradients(model, batch)
    found = batch_influence(model, [optimizer], loss_of, batch)
    torch.testing.assert_close(found.contribution_SS, -0.01 / 9 * grads @ grads.T)
    torch.testing.assert_close(found.losses_S, losses(model, batch))


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["minimise", "maximise"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_all_contributions_together_are_the_derivative_along_the_true_step(optimizer, sign, clip):
    model, made, before, batch = trained("mlp", optimizer, 1e-5, sign=sign, clip=clip)
    found = batch_influence(model, [made], loss_of, batch, grad_clip_norm=clip)
    along = slow_gradients(before, batch) @ moved(before, model)
    # Plain descent and Nesterov keep no trace of the weights before: first order in lr.
    traced = optimizer not in ("sgd", "sgd decay", "nesterov")
    close = {"rtol": 1e-7, "atol": 1e-13} if traced else {"rtol": 2e-3, "atol": 1e-9}
    torch.testing.assert_close(found.change_S, along, **close)
    if traced:
        torch.testing.assert_close(found.losses_S, losses(before, batch))


def test_contributions_with_adam_equal_the_slow_twin():
    model, made, before, batch = trained("attention", "adamw", 1e-2)
    grads = slow_gradients(before, batch)
    second = torch.cat([made.state[each]["exp_avg_sq"].flatten() for each in moving(model, made)])
    used = torch.cat(
        [torch.full((each.numel(),), each in made.state) for each in model.parameters()]
    )
    scale = 1e-2 * 0.1 / (1 - 0.9**4) / ((second / (1 - 0.999**4)).sqrt() + 1e-8)
    grads = grads[:, used]
    found = batch_influence(model, [made], loss_of, batch)
    torch.testing.assert_close(found.contribution_SS, -(grads * scale) @ grads.T / 9)


def moving(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [each for each in model.parameters() if each in optimizer.state]


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_the_error_against_the_true_change_falls_with_the_learning_rate(optimizer):
    errors = []
    for lr in (1e-3, 1e-4):
        model, made, before, batch = trained("attention", optimizer, lr)
        true = losses(model, batch) - losses(before, batch)
        found = batch_influence(model, [made], loss_of, batch).change_S
        errors.append(float((found - true).norm() / true.norm()))
    assert errors[1] < errors[0] / 5
    assert errors[1] < 0.01


def test_samples_that_are_not_shown_are_told_as_a_sum():
    model, made, _, batch = trained("mlp", "adamw", 1e-3)
    whole = batch_influence(model, [made], loss_of, batch)
    part = batch_influence(model, [made], loss_of, batch, samples=3)
    assert part.contribution_SS.shape == (3, 3)
    torch.testing.assert_close(part.contribution_SS, whole.contribution_SS[:3, :3])
    torch.testing.assert_close(part.others_S, whole.contribution_SS[:3, 3:].sum(1))
    torch.testing.assert_close(part.change_S, whole.change_S[:3])
    assert "first 3 of 9" in part.notes[0]


def test_a_gradient_that_something_else_changed_is_said():
    model = model_of("mlp")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batch = batch_of(0)
    for gated in (1.0, 0.01):
        for _ in range(20):
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            for each in model.parameters():
                each.grad *= gated
            optimizer.step()
        notes = batch_influence(model, [optimizer], loss_of, batch).notes
        assert any("another gradient" in note for note in notes) is (gated != 1.0)


def test_a_sum_of_losses_counts_every_sample_whole():
    model, made, _, batch = trained("mlp", "sgd", 1e-3)

    def summed(model, batch):
        return nn.functional.cross_entropy(model(batch["x"]), batch["y"], reduction="sum")

    of_mean = batch_influence(model, [made], loss_of, batch).contribution_SS
    torch.testing.assert_close(
        batch_influence(model, [made], summed, batch).contribution_SS, 9 * of_mean
    )


def test_tensors_outside_of_the_model_are_noted_where_gradients_are_clipped():
    model = model_of("mlp")
    scale = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = torch.optim.SGD([*model.parameters(), scale], lr=1e-3)

    def scaled(model, batch):
        return nn.functional.cross_entropy(model(batch["x"]) * scale, batch["y"])

    for clip in (None, 0.05):
        notes = batch_influence(model, [optimizer], scaled, batch_of(0), grad_clip_norm=clip).notes
        assert any("1 tensor(s) outside of the model" in note for note in notes) is (clip == 0.05)


def test_a_loss_of_pairs_is_refused():
    model, made, _, batch = trained("mlp", "sgd", 1e-3)

    def contrastive(model, batch):
        made = nn.functional.normalize(model(batch["x"]))
        return (made @ made.T).logsumexp(1).mean()

    with pytest.raises(ConfigError, match=r"neither the mean .* nor the sum"):
        batch_influence(model, [made], contrastive, batch)


def test_other_optimizers_are_refused_by_name():
    model = model_of("mlp")
    optimizer = torch.optim.RMSprop(model.parameters())
    with pytest.raises(ConfigError, match="RMSprop"):
        batch_influence(model, [optimizer], loss_of, batch_of(0))


def test_a_batch_without_samples_is_refused():
    model, made, _, _ = trained("mlp", "sgd", 1e-3)
    with pytest.raises(ConfigError, match="no samples"):
        batch_influence(model, [made], loss_of, {"x": torch.zeros(3, 5), "y": torch.zeros(2)})


def test_what_vmap_cannot_take_is_done_sample_by_sample():
    """A loss that looks at values in Python, and texts beside the tensors."""
    model, made, _, batch = trained("mlp", "adam", 1e-3)

    def looking(model, batch):
        assert len(batch["text"]) == len(batch["x"])
        loss = loss_of(model, batch)
        return loss if float(loss.detach()) > -1 else -loss

    texts = {**batch, "text": [f"sample {at}" for at in range(9)]}
    torch.testing.assert_close(
        batch_influence(model, [made], looking, texts).contribution_SS,
        batch_influence(model, [made], loss_of, batch).contribution_SS,
    )


def test_modes_gradients_and_weights_stay_as_they_were():
    model, made, _, batch = trained("moody", "adam", 1e-3)
    model.train()
    model[1].eval()
    model[0].weight.grad = torch.full_like(model[0].weight, 3.0)
    kept = copy.deepcopy(model.state_dict())
    found = batch_influence(model, [made], loss_of, batch)
    assert [each.training for each in model] == [True, False, True, True]
    assert torch.equal(model[0].weight.grad, torch.full_like(model[0].weight, 3.0))
    assert all(torch.equal(kept[name], each) for name, each in model.state_dict().items())
    assert any("BatchNorm1d, Dropout" in note for note in found.notes)


def test_samples_are_cut_out_of_any_tree():
    batch = [torch.arange(3), ("a", "b", "c"), {"z": torch.ones(3, 2), "name": "all"}]
    assert sample_count(batch) == 3
    numbers, letters, rest = take_sample(batch, 1)
    assert (numbers.tolist(), letters, rest["z"].shape, rest["name"]) == (
        [1],
        ("b",),
        (1, 2),
        "all",
    )
