"""Gradients of single sequences, computed on request, and D of the step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.gradients.sequences import SequenceBatch
from midstep.influence.kernels.fisher import per_sequence_gradients
from midstep.influence.kernels.kernel_inputs import (
    bind_adam_state,
    step_preconditioner,
    trained_parameters,
)
from midstep.influence.kernels.kernel_job import KernelJob
from midstep.influence.study.plan import FisherKernelPlan

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.optimizers.adam_state import AdamState
    from midstep.influence.sampling.generated_batch import GeneratedBatch, SequenceRecord

COMPUTE_TYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}


class GradientViews:
    """Computes gradients of single sequences with the model and optimizer of a workspace.

    A workspace stores norms, not gradients: those of one sequence are as large as the model.

    Args:
        model: the model before the step.
        optimizer: its AdamW; None for sgd.
        update: the batch of the step.
        weights: weights w of the update.
        plan: which parameters count, and the preconditioner.
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
        """The model in the plan's type: the model itself, or a copy that is made once."""
        wanted = COMPUTE_TYPES[self.plan.dtype] if self.plan.dtype else None
        if wanted is None or wanted == next(self.model.parameters()).dtype:
            return self.model
        if self._copy is None:
            self._copy = copy.deepcopy(self.model).to(wanted)
        return self._copy

    def adam_state(self) -> AdamState | None:
        """The optimizer's state by name; None for sgd."""
        adam = self.plan.preconditioner != "sgd"
        return bind_adam_state(self.optimizer, self.model, fresh=False, needed=adam)

    def raw(self, record: SequenceRecord) -> dict[str, Tensor]:
        """The gradient of a sequence's log π, by parameter name."""
        gradients = per_sequence_gradients(
            self.computing_model, _single_sequence(record), parameters=self.plan.parameters
        )
        return {name: grads[0] for name, grads in gradients.items()}

    def all_raw(self, batch: GeneratedBatch) -> dict[str, Tensor]:
        """Gradients [N, *shape] of all sequences of a batch, by parameter name."""
        return per_sequence_gradients(
            self.computing_model, batch.sequence_batch(), parameters=self.plan.parameters
        )

    def preconditioned(self, raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """D g by parameter name."""
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
        """D of the step by parameter name. It is as large as the model and computed once."""
        if self._diagonal is None:
            self._diagonal = self._make_diagonal()
        return self._diagonal

    def _make_diagonal(self) -> dict[str, Tensor]:
        model, plan = self.computing_model, self.plan
        trained = trained_parameters(model, plan.parameters)
        step = step_preconditioner(
            plan.preconditioner, self.optimizer, self.model, list(trained.values()), lr=plan.lr
        )
        with eval_mode(model, frozen=True), torch.no_grad():
            job = KernelJob(
                model,
                trained,
                self._update,
                weights=self._weights,
                preconditioner=step,
                max_grad_norm=plan.max_grad_norm,
                microbatch=plan.microbatch,
                check_coverage=False,
            )
            return job.diagonal()


def _single_sequence(record: SequenceRecord) -> SequenceBatch:
    tokens = [*record.prompt_tokens, *record.response_tokens]
    marks = [0] * len(record.prompt_tokens) + [1] * len(record.response_tokens)
    return SequenceBatch(torch.tensor([tokens]), torch.tensor([marks]))
