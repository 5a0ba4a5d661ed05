"""Brute force: one backward pass a sequence, Adam's formulas written down, nothing shared."""

from __future__ import annotations

import torch
from torch import Tensor

from midstep.influence.sampling import GeneratedBatch


def flat_gradients(model, batch: GeneratedBatch) -> Tensor:
    """∂ log π / ∂θ of each sequence, [N, P]."""
    rows = []
    parameters = list(model.parameters())
    for record in batch:
        ids = torch.tensor([[*record.prompt_tokens, *record.response_tokens]])
        logs = model(ids)[0].log_softmax(1)
        start = len(record.prompt_tokens)
        places = range(start, ids.shape[1])
        score = sum(logs[at - 1, ids[0, at]] for at in places)
        grads = torch.autograd.grad(score, parameters)
        rows.append(torch.cat([grad.flatten() for grad in grads]))
    return torch.stack(rows).detach()


def flat_state(model, optimizer, kind: str) -> Tensor:
    return torch.cat([optimizer.state[one][kind].flatten() for one in model.parameters()])


def adam_diagonal(model, optimizer, grads_u: Tensor, weights: Tensor) -> Tensor:
    """D after the step."""
    group = optimizer.param_groups[0]
    step = int(optimizer.state[next(model.parameters())]["step"]) + 1
    beta2 = group["betas"][1]
    total = -(weights.to(grads_u) @ grads_u)
    after = beta2 * flat_state(model, optimizer, "exp_avg_sq") + (1 - beta2) * total**2
    return 1 / ((after / (1 - beta2**step)).sqrt() + group["eps"])


def adam_terms(model, optimizer, grads: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor]:
    """Momentum and decay in nats, each [N]."""
    group = optimizer.param_groups[0]
    step = int(optimizer.state[next(model.parameters())]["step"]) + 1
    beta1 = group["betas"][0]
    first = flat_state(model, optimizer, "exp_avg")
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    momentum = -group["lr"] * beta1 / (1 - beta1**step) * (grads @ (diagonal * first))
    return momentum, -group["lr"] * group["weight_decay"] * (grads @ weights)


def adam_rate(model, optimizer) -> float:
    group = optimizer.param_groups[0]
    step = int(optimizer.state[next(model.parameters())]["step"]) + 1
    beta1 = group["betas"][0]
    return group["lr"] * (1 - beta1) / (1 - beta1**step)
