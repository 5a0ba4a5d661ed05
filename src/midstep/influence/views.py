"""Gradients of single sequences, made when asked for, and the D of the step between them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from midstep.influence.anatomy import take_apart
from midstep.influence.batches import SequenceBatch
from midstep.influence.coverage_probe import probe_batch
from midstep.influence.gradients import clip_factor_of, square_norm, summed_gradient
from midstep.influence.inputs import (
    adam_state_of,
    plain_decay,
    plain_rate,
    sequences_of,
    trained_parameters,
)
from midstep.influence.kernels import per_sequence_gradients
from midstep.influence.passes import Side, standing
from midstep.influence.plan import FisherKernelPlan
from midstep.influence.preconditioners import preconditioner_of
from midstep.influence.tiles import Tile

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.optimizer_state import AdamState
    from midstep.influence.sampling.batch import GeneratedBatch
    from midstep.influence.sampling.records import SequenceRecord

__all__ = ["COMPUTE_TYPES", "GradientViews"]

COMPUTE_TYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}
_TOKENS = 2048


class GradientViews:
    """The model and optimizer of a workspace, asked for one sequence at a time.

    Args:
        model: as it stood before the step.
        optimizer: its AdamW; None for sgd.
        update: the batch of the step.
        weights: w of the update.
        plan: says which parameters count and what stands between the gradients.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None,
        update: GeneratedBatch,
        weights: Tensor,
        plan: FisherKernelPlan,
    ) -> None:
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._update, self._weights = update, weights
        self._diagonal: dict[str, Tensor] | None = None
        self._copy: nn.Module | None = None

    @property
    def computing_model(self) -> nn.Module:
        """The model in the plan's type: itself, or a copy made once."""
        wanted = COMPUTE_TYPES[self.plan.dtype] if self.plan.dtype else None
        if wanted is None or wanted == next(self.model.parameters()).dtype:
            return self.model
        if self._copy is None:
            self._copy = copy.deepcopy(self.model).to(wanted)
        return self._copy

    def adam_state(self) -> AdamState | None:
        """The optimizer's state by name; None for sgd."""
        adam = self.plan.preconditioner != "sgd"
        return adam_state_of(self.optimizer, self.model, fresh=False, needed=adam)

    def raw(self, record: SequenceRecord) -> dict[str, Tensor]:
        """The gradient of this sequence's log π, by parameter name."""
        found = per_sequence_gradients(
            self.computing_model, _one(record), parameters=self.plan.parameters
        )
        return {name: grads[0] for name, grads in found.items()}

    def all_raw(self, batch: GeneratedBatch) -> dict[str, Tensor]:
        """Gradients [N, *shape] of all sequences of a batch."""
        return per_sequence_gradients(
            self.computing_model, batch.sequence_batch(), parameters=self.plan.parameters
        )

    def preconditioned(self, raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """D g, by parameter name."""
        diagonal = self.diagonal()
        return {name: diagonal[name] * grad for name, grad in raw.items()}

    def contract(self, one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
        """K = g · D · g' of two raw gradients."""
        diagonal = self.diagonal()
        return sum(
            float((one[name] * diagonal[name] * other[name]).sum(dtype=diagonal[name].dtype))
            for name in one
        )

    def diagonal(self) -> dict[str, Tensor]:
        """D of the step, by parameter name; as large as the model, made once."""
        if self._diagonal is None:
            self._diagonal = self._make_diagonal()
        return self._diagonal

    def _make_diagonal(self) -> dict[str, Tensor]:
        model, plan = self.computing_model, self.plan
        trained = trained_parameters(model, plan.parameters)
        step = preconditioner_of(
            plan.preconditioner,
            self.adam_state(),
            list(trained.values()),
            lr=plan.lr if plan.lr is not None else plain_rate(self.optimizer),
            decay=plain_decay(self.optimizer, self.model),
        )
        ascent = self._ascent(model, trained)
        step.clip_factor = clip_factor_of(square_norm(ascent) ** 0.5, plan.max_grad_norm)
        made = {}
        for name, total in ascent.items():
            columns = total.shape[1] if total.dim() == 2 else 1
            wide = torch.promote_types(total.dtype, torch.float32)
            tile = Tile(name, 0, 0, total.numel() // columns, columns, wide, total.device)
            made[name] = step.diagonal(tile, -tile.of(total)).reshape(total.shape)
        return made

    def _ascent(self, model: nn.Module, trained: dict[int, str]) -> dict[str, Tensor]:
        """Σ_j w_j g_j over the update, by a plain backward pass."""
        batch = sequences_of(self._update, model)
        seeds = batch.response_mask.to(self._weights.dtype) * self._weights.to(
            batch.response_mask.device
        ).unsqueeze(1)
        side = Side(batch.buckets(_TOKENS, self.plan.microbatch), seeds)
        with standing(model), torch.no_grad():
            anatomy = take_apart(model, probe_batch(batch).input_ids)
            found: dict[str, Any] = summed_gradient(anatomy, trained, side)
        return found


def _one(record: SequenceRecord) -> SequenceBatch:
    tokens = [*record.prompt_tokens, *record.response_tokens]
    marks = [0] * len(record.prompt_tokens) + [1] * len(record.response_tokens)
    return SequenceBatch(torch.tensor([tokens]), torch.tensor([marks]))
