"""The diagonal D of one optimizer step, tile by tile: what multiplies a gradient in the kernel.

For a step t with the state (m, v) and the clipped gradient cG:

    adam_post    v' = β₂ v + (1−β₂)(cG)²,  D = 1 / (sqrt(v'/(1−β₂ᵗ)) + ε)
    adam_state   D = 1 / (sqrt(v/(1−β₂ᵗ⁻¹)) + ε), from the stored state alone
    sgd          D = 1 (times the ratio below)

Where groups differ in learning rate or β₁, D carries the ratio to the reference (the largest rate),
so that Δ log π = η (rate · c K w + momentum + decay) holds over all groups.

Shapes: R rows and C columns of a tile, P = R·C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from midstep.core.errors import ConfigError
from midstep.influence.optimizers.adam_state import AdamState, ParameterState
from midstep.influence.optimizers.described_optimizers import check_has_rate
from midstep.influence.optimizers.triton_scaling import AdamTile

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.tiles import Tile

PreconditionerName = Literal["adam_post", "adam_state", "sgd"]


@dataclass
class SgdPreconditioner:
    """D = 1: plain gradient descent, with its weight decay if there is one."""

    name: ClassVar = "sgd"
    lr: float
    """Learning rate η."""
    decay: Mapping[str, float]
    """Weight decay by parameter name; a missing name has none."""
    clip_factor: float = 1.0
    """The factor c of gradient clipping."""
    rate: float = 1.0
    """Factor of c Σ_j K_ij w_j; plain descent has no first moment."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Learning rate of a parameter's group over `lr`, by name; a missing name has 1."""

    @property
    def is_identity(self) -> bool:
        """Whether D is 1 for every parameter."""
        return all(ratio == 1 for ratio in self.ratios.values())

    def diagonal(
        self,
        tile: Tile,
        gradient_RC: Tensor | None,  # noqa: ARG002 - the interface of AdamPreconditioner
        *,
        out_RC: Tensor | None = None,  # noqa: ARG002 - the interface of AdamPreconditioner
    ) -> Tensor:
        """One everywhere, or the ratio of the group's learning rate to the reference."""
        ratio = self.ratios.get(tile.name, 1.0)
        return torch.full((), ratio, dtype=tile.dtype, device=tile.device).expand(tile.shape)

    def adam_tile(self, tile: Tile) -> AdamTile | None:  # noqa: ARG002 - as above
        """None: D does not have Adam's form."""
        return None

    def momentum_and_decay(
        self,
        tile: Tile,
        weights_RC: Tensor,
        diagonal_RC: Tensor,
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The directions of momentum (none) and of decay, −λθ."""
        momentum, decay = _output_pair(diagonal_RC, out)
        rate = self.ratios.get(tile.name, 1.0) * self.decay.get(tile.name, 0.0)
        return momentum.zero_(), torch.mul(weights_RC, -rate, out=decay)


@dataclass
class AdamPreconditioner:
    """D of AdamW, from v after the step (`post_step`) or from the stored v."""

    state: AdamState
    lr: float
    """Reference learning rate η."""
    rate: float
    """(1−β₁)/(1−β₁ᵗ) of the reference: the factor of c Σ_j K_ij w_j."""
    ratio: float
    """`lr` over the rate of the optimizer's fastest group; every group is scaled by it."""
    post_step: bool = True
    is_identity: ClassVar = False
    clip_factor: float = 1.0
    """The factor c of gradient clipping."""

    @property
    def name(self) -> str:
        """adam_post or adam_state."""
        return "adam_post" if self.post_step else "adam_state"

    def group_ratio(self, adam: ParameterState) -> float:
        """The learning rate of this parameter's group over the reference."""
        return adam.lr * self.ratio / self.lr

    def _scale(self, adam: ParameterState) -> float:
        """The factor by which D of this parameter differs from Adam's formula (see the top)."""
        return self.group_ratio(adam) * first_moment_rate(adam) / self.rate

    def diagonal(
        self, tile: Tile, gradient_RC: Tensor | None, *, out_RC: Tensor | None = None
    ) -> Tensor:
        """D of a tile, given the tile of G; written to `out_RC` where that saves memory."""
        adam = self.state.parameters[tile.name]
        second_RC, scale = tile.take(adam.exp_avg_sq), self._scale(adam)
        if not self.post_step:
            # No stored v: the state does not describe this parameter, and 1/ε would dominate K.
            if not adam.step and self.state.has_stepped:
                return torch.zeros_like(second_RC)
            # Before the first step v is 0 and 1−β₂⁰ too; 0/0 would make D NaN.
            corrected = 1 - adam.beta2 ** max(adam.step, 1)
            return scale / ((second_RC / corrected).sqrt() + adam.eps)
        if gradient_RC is None:
            raise ConfigError("preconditioner 'adam_post' needs the batch's gradient to compute v'")
        diagonal_RC = torch.empty_like(gradient_RC) if out_RC is None else out_RC
        if scale == 0:  # the learning rate of the group is 0; 1 / scale would be infinite
            return diagonal_RC.zero_()
        # scale / (sqrt(v'/(1−β₂ᵗ)) + ε), computed as 1 / (sqrt(v' / ((1−β₂ᵗ) scale²)) + ε / scale).
        # The constants are merged beforehand, so five passes over the tile are enough.
        correction = (1 - adam.beta2 ** (adam.step + 1)) * scale**2
        torch.mul(second_RC, adam.beta2 / correction, out=diagonal_RC)
        clipped_share = (1 - adam.beta2) * self.clip_factor**2 / correction
        diagonal_RC.addcmul_(gradient_RC, gradient_RC, value=clipped_share)
        return diagonal_RC.sqrt_().add_(adam.eps / scale).reciprocal_()

    def adam_tile(self, tile: Tile) -> AdamTile | None:
        """The numbers that the Triton kernel computes D from; None for `adam_state`."""
        if not self.post_step:
            return None
        adam = self.state.parameters[tile.name]
        return AdamTile(
            second_RC=tile.take(adam.exp_avg_sq),
            beta2=adam.beta2,
            clip_factor=self.clip_factor,
            corrected=1 - adam.beta2 ** (adam.step + 1),
            eps=adam.eps,
            scale=self._scale(adam),
        )

    def momentum_and_decay(
        self,
        tile: Tile,
        weights_RC: Tensor,
        diagonal_RC: Tensor,
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The directions −β₁/(1−β₁ᵗ) D m and −λθ per unit of η, each times the group's ratio."""
        adam = self.state.parameters[tile.name]
        # `diagonal` contains (1−β₁)/(1−β₁ᵗ) of its own group over the reference's. Momentum has
        # β₁/(1−β₁ᵗ) instead, so that factor is divided out here.
        factor = adam.beta1 * self.rate / (1 - adam.beta1) if adam.beta1 < 1 else 0.0
        momentum, decay = _output_pair(diagonal_RC, out)
        torch.mul(diagonal_RC, tile.take(adam.exp_avg), out=momentum).mul_(-factor)
        return momentum, torch.mul(
            weights_RC, -self.group_ratio(adam) * adam.weight_decay, out=decay
        )


Preconditioner = AdamPreconditioner | SgdPreconditioner


def _output_pair(like: Tensor, out: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor]:
    if out is not None:
        return out
    pair = torch.empty((2, *like.shape), dtype=like.dtype, device=like.device)
    return pair[0], pair[1]


def first_moment_rate(adam: ParameterState) -> float:
    """(1−β₁)/(1−β₁ᵗ) of the next step."""
    return (1 - adam.beta1) / (1 - adam.beta1 ** (adam.step + 1))


def make_preconditioner(
    name: PreconditionerName,
    state: AdamState | None,
    names: list[str],
    *,
    lr: float | None = None,
    decay: Mapping[str, float] | None = None,
    ratios: Mapping[str, float] | None = None,
    clip_factor: float = 1.0,
) -> Preconditioner:
    """The preconditioner of this name for these parameters.

    Args:
        name: adam_post, adam_state or sgd.
        state: Adam's state; the first two need it.
        names: the parameters that count.
        lr: reference learning rate; None takes the optimizer's, or 1 without an optimizer.
        decay: weight decay by name, for sgd.
        ratios: learning rate by name over `lr`, for sgd with groups of different rates.
        clip_factor: the factor c of gradient clipping.
    """
    if name == "sgd":
        return SgdPreconditioner(
            lr=1.0 if lr is None else lr,
            decay=decay or {},
            ratios=ratios or {},
            clip_factor=clip_factor,
        )
    if name not in {"adam_post", "adam_state"}:
        raise ConfigError(f"preconditioner must be one of adam_post, adam_state, sgd; got {name!r}")
    if state is None:
        raise ConfigError(
            f"preconditioner {name!r} needs the state of an AdamW optimizer: pass optimizer=, "
            "or preconditioner='sgd' for the plain inner product"
        )
    state.require(names)
    fastest = max((state.parameters[each] for each in names), key=lambda kept: kept.lr)
    check_has_rate(fastest.lr)
    return AdamPreconditioner(
        state=state,
        lr=fastest.lr if lr is None else lr,
        rate=first_moment_rate(fastest),
        ratio=1.0 if lr is None else lr / fastest.lr,
        post_step=name == "adam_post",
        clip_factor=clip_factor,
    )
