"""What stands between two gradients: D of one optimizer step, tile by tile.

For a step t with the state (m, v) and the clipped gradient cG:

    adam_post    v' = β₂ v + (1−β₂)(cG)²,  D = 1 / (sqrt(v'/(1−β₂ᵗ)) + ε)
    adam_state   D = 1 / (sqrt(v/(1−β₂ᵗ⁻¹)) + ε), from the stored state alone
    sgd          D = 1

Where groups differ in learning rate or β₁, D carries the ratio to the reference (the largest rate),
so that Δ log π = η (rate · K w + momentum + decay) holds over all groups.
"""

# ruff: noqa: N803, N806 - names end in their shape
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from midstep.core.errors import ConfigError
from midstep.influence.optimizers.adam_state import AdamState, ParameterState
from midstep.influence.optimizers.triton_scaling import AdamTile

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.tiles import Tile

PreconditionerName = Literal["adam_post", "adam_state", "sgd"]


class Preconditioner(Protocol):
    """D of a step and the parts of the step that are not the batch's."""

    lr: float
    """Reference learning rate η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ) of the reference: what stands before c Σ_j K_ij w_j."""
    clip_factor: float

    @property
    def name(self) -> str:
        """adam_post, adam_state or sgd."""

    def diagonal(
        self, tile: Tile, gradient_RC: Tensor | None, *, out_RC: Tensor | None = None
    ) -> Tensor:
        """D of a tile, given the tile of G; written to `out_RC` where that helps."""

    def adam_tile(self, tile: Tile) -> AdamTile | None:
        """The same as numbers for a kernel that makes D itself; None where D is of another form."""

    def momentum_and_decay(
        self,
        tile: Tile,
        weights_RC: Tensor,
        diagonal_RC: Tensor,
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The directions of momentum and of decay, both per unit of η; written to `out`."""


@dataclass
class SgdPreconditioner:
    """The identity: plain gradient descent, with its weight decay if there is one."""

    lr: float
    decay: Mapping[str, float]
    """Weight decay by parameter name; none where missing."""
    clip_factor: float = 1.0
    rate: float = 1.0

    @property
    def name(self) -> str:
        """Always sgd."""
        return "sgd"

    def diagonal(
        self,
        tile: Tile,
        gradient_RC: Tensor | None,  # noqa: ARG002 - of the interface
        *,
        out_RC: Tensor | None = None,  # noqa: ARG002 - of the interface
    ) -> Tensor:
        """One everywhere."""
        return torch.ones((), dtype=tile.dtype, device=tile.device).expand(tile.shape)

    def adam_tile(self, tile: Tile) -> AdamTile | None:  # noqa: ARG002 - of the interface
        """Of another form."""
        return None

    def momentum_and_decay(
        self,
        tile: Tile,
        weights_RC: Tensor,
        diagonal_RC: Tensor,
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """No momentum; −λθ."""
        momentum, decay = _output_pair(diagonal_RC, out)
        rate = self.decay.get(tile.name, 0.0)
        return momentum.zero_(), torch.mul(weights_RC, -rate, out=decay)


@dataclass
class AdamPreconditioner:
    """D of AdamW, from the state after the step's gradient (`after`) or the stored one."""

    state: AdamState
    lr: float
    rate: float
    ratio: float
    """`lr` over the rate of the optimizer's fastest group; every group is scaled by it."""
    post_step: bool = True
    clip_factor: float = 1.0

    @property
    def name(self) -> str:
        """adam_post or adam_state."""
        return "adam_post" if self.post_step else "adam_state"

    def group_ratio(self, adam: ParameterState) -> float:
        """What this parameter's group steps, against the reference."""
        return adam.lr * self.ratio / self.lr

    def diagonal(
        self, tile: Tile, gradient_RC: Tensor | None, *, out_RC: Tensor | None = None
    ) -> Tensor:
        """D of a tile."""
        adam = self.state.parameters[tile.name]
        second = tile.take(adam.exp_avg_sq)
        scale = self.group_ratio(adam) * first_moment_rate(adam) / self.rate
        if not self.post_step:
            corrected = 1 - adam.beta2 ** max(adam.step, 1)
            return scale / ((second / corrected).sqrt() + adam.eps)
        if gradient_RC is None:
            raise ConfigError("adam_post needs the batch's gradient to know v'")
        corrected = 1 - adam.beta2 ** (adam.step + 1)
        return adam_diagonal(
            second,
            gradient_RC,
            adam.beta2,
            self.clip_factor,
            corrected,
            adam.eps,
            scale,
            out_RC=out_RC,
        )

    def adam_tile(self, tile: Tile) -> AdamTile | None:
        """The numbers of D after the step."""
        if not self.post_step:
            return None
        adam = self.state.parameters[tile.name]
        return AdamTile(
            second_P=tile.take(adam.exp_avg_sq).reshape(-1),
            beta2=adam.beta2,
            clip_factor=self.clip_factor,
            corrected=1 - adam.beta2 ** (adam.step + 1),
            eps=adam.eps,
            scale=self.group_ratio(adam) * first_moment_rate(adam) / self.rate,
        )

    def momentum_and_decay(
        self,
        tile: Tile,
        weights_RC: Tensor,
        diagonal_RC: Tensor,
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """−β₁/(1−β₁ᵗ) D m and −λθ, each times the group's share."""
        adam = self.state.parameters[tile.name]
        # `diagonal` carries (1−β₁)/(1−β₁ᵗ) of its own group over the reference's: undone here.
        factor = adam.beta1 * self.rate / (1 - adam.beta1) if adam.beta1 < 1 else 0.0
        momentum, decay = _output_pair(diagonal_RC, out)
        torch.mul(diagonal_RC, tile.take(adam.exp_avg), out=momentum).mul_(-factor)
        return momentum, torch.mul(
            weights_RC, -self.group_ratio(adam) * adam.weight_decay, out=decay
        )


def _output_pair(like: Tensor, out: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    if out is not None:
        return out
    pair = torch.empty((2, *like.shape), dtype=like.dtype, device=like.device)
    return pair[0], pair[1]


def adam_diagonal(
    second_RC: Tensor,
    gradient_RC: Tensor,
    beta2: float,
    clip_factor: float,
    corrected: float,
    eps: float,
    scale: float,
    *,
    out_RC: Tensor | None = None,
) -> Tensor:
    """D after the step: scale / (sqrt(v'/(1−β₂ᵗ)) + ε), in five passes.

    1 / (sqrt(v' / (1−β₂ᵗ) / scale²) + ε / scale): the numbers are put together beforehand.
    """
    diagonal_RC = torch.empty_like(gradient_RC) if out_RC is None else out_RC
    if scale == 0:  # a group that does not move
        return diagonal_RC.zero_()
    correction = corrected * scale**2
    torch.mul(second_RC, beta2 / correction, out=diagonal_RC)
    diagonal_RC.addcmul_(gradient_RC, gradient_RC, value=(1 - beta2) * clip_factor**2 / correction)
    return diagonal_RC.sqrt_().add_(eps / scale).reciprocal_()


def first_moment_rate(adam: ParameterState) -> float:
    """(1−β₁)/(1−β₁ᵗ) of the coming step."""
    return (1 - adam.beta1) / (1 - adam.beta1 ** (adam.step + 1))


def make_preconditioner(
    name: PreconditionerName,
    state: AdamState | None,
    names: list[str],
    *,
    lr: float | None = None,
    decay: Mapping[str, float] | None = None,
    clip_factor: float = 1.0,
) -> AdamPreconditioner | SgdPreconditioner:
    """The preconditioner of that name over these parameters.

    Args:
        name: adam_post, adam_state or sgd.
        state: Adam's state, needed by the first two.
        names: the parameters that count.
        lr: reference rate; None takes the optimizer's own, 1 without one.
        decay: weight decay by name, for sgd.
        clip_factor: c.
    """
    if name == "sgd":
        return SgdPreconditioner(
            lr=1.0 if lr is None else lr, decay=decay or {}, clip_factor=clip_factor
        )
    if name not in {"adam_post", "adam_state"}:
        raise ConfigError(f"preconditioner {name!r} is none of adam_post, adam_state, sgd")
    if state is None:
        raise ConfigError(
            f"preconditioner {name!r} needs the state of an AdamW optimizer: pass optimizer=, "
            "or preconditioner='sgd' for the plain inner product"
        )
    state.require(names)
    fastest = max((state.parameters[each] for each in names), key=lambda kept: kept.lr)
    if fastest.lr <= 0:
        raise ConfigError("every group of the optimizer has learning rate 0: nothing would move")
    return AdamPreconditioner(
        state=state,
        lr=fastest.lr if lr is None else lr,
        rate=first_moment_rate(fastest),
        ratio=1.0 if lr is None else lr / fastest.lr,
        post_step=name == "adam_post",
        clip_factor=clip_factor,
    )
