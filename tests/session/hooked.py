"""Small models for the tests of hooks and rules, and a loop that trains them under a controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from midstep.control import DebugController
from midstep.session.hooks import Hook
from midstep.session.hooks.hook_manager import HookManager

Told = list[tuple[str, str]]


def mlp(activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(8, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, 1)
    )


class Attending(nn.Module):
    """Attention by the fused function, as most models write it."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (part.unflatten(-1, (self.heads, -1)) for part in self.qkv(x).chunk(3, dim=-1))
        query, key, value = (part.transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(seen.transpose(1, 2).flatten(2))


class SmallTransformer(nn.Module):
    """One attention of each kind, with dropout, so that a draw of ours would show."""

    def __init__(self) -> None:
        super().__init__()
        self.own = Attending()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x + self.own(x)))


def transformer() -> SmallTransformer:
    torch.manual_seed(0)
    return SmallTransformer()


@contextmanager
def hooked(
    model: nn.Module, optimizer: torch.optim.Optimizer, *hooks: Hook
) -> Iterator[tuple[DebugController, HookManager, Told]]:
    """A controller with these hooks on the model; what was switched off is told."""
    control, told = DebugController(), Told()
    board = HookManager(control, model, optimizer, lambda key, why: told.append((key, why)))
    for hook in hooks:
        board.add(hook)
    try:
        yield control, board, told
    finally:
        board.close()


def train(
    control: DebugController,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    *,
    loss_of: Callable[[nn.Module, torch.Tensor], torch.Tensor],
    inputs: Callable[[int], torch.Tensor],
) -> None:
    """A plain loop with the two call sites."""
    control.boundary.enter()
    for index in range(steps):
        x = inputs(index)
        loss = loss_of(model, x)
        optimizer.zero_grad()
        loss.backward()
        control.capture_batch(x, loss, index)
        optimizer.step()
        control.wait_if_paused()


def hook_count(model: nn.Module) -> int:
    """Hooks that hang on any part of the model."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
