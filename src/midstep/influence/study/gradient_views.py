"""Gradients of single sequences, computed on request, and D of the step."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.kernels.fisher import per_sequence_gradients
from midstep.influence.kernels.kernel_inputs import (
    bind_adam_state,
    clipped_parameters,
    step_preconditioner,
    trained_parameters,
)
from midstep.influence.kernels.kernel_job import KernelJob
from midstep.influence.sampling.generated_batch import GeneratedBatch, SequenceRecord
from midstep.influence.sampling.lm_checkpoints import DTYPES
from midstep.influence.study.plan import FisherKernelPlan

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.optimizers.adam_state import AdamState


class GradientViews:
    """Computes gradients of single sequences with the model and optimizer of a workspace.

    A workspace stores norms, not gradients: those of one sequence are as large as the model.

    Args:
        model: the model before the step.
        optimizer: its AdamW; None for sgd.
        update: the batch of the step, with its weights w.
        plan: which parameters count, and the preconditioner.
        has_adam_state: whether the checkpoint has the state of an AdamW, which sgd does not use.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None,
        update: GeneratedBatch,
        plan: FisherKernelPlan,
        *,
        has_adam_state: bool = False,
    ) -> None:
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._has_adam_state = has_adam_state
        self._update = update

    @cached_property
    def computing_model(self) -> nn.Module:
        """The model in the plan's type: the model itself, or a copy that is made once."""
        wanted = DTYPES[self.plan.dtype] if self.plan.dtype else None
        if wanted is None or wanted == next(self.model.parameters()).dtype:
            return self.model
        return copy.deepcopy(self.model).to(wanted)

    def step_optimizer(self) -> Optimizer | None:
        """The optimizer whose copies make true steps; None for plain descent without any state."""
        if self.plan.preconditioner == "sgd" and self._has_adam_state:
            raise ConfigError(
                "this plan predicts plain gradient descent (preconditioner: sgd), but the "
                "optimizer of the checkpoint is AdamW, so a true step would not be the predicted "
                "one; check a plan with preconditioner: adam_post"
            )
        return self.optimizer

    def adam_state(self) -> AdamState | None:
        """The optimizer's state by name; None for sgd."""
        adam = self.plan.preconditioner != "sgd"
        return bind_adam_state(self.optimizer, self.model, fresh=False, needed=adam)

    def raw(self, record: SequenceRecord) -> dict[str, Tensor]:
        """The gradient of a sequence's log π, by parameter name."""
        gradients = self.all_raw(GeneratedBatch(records=(record,)))
        return {name: grads[0] for name, grads in gradients.items()}

    def all_raw(self, batch: GeneratedBatch) -> dict[str, Tensor]:
        """Gradients [N, *shape] of all sequences of a batch, by parameter name."""
        return per_sequence_gradients(
            self.computing_model, batch.sequence_batch(), parameters=self.plan.parameters
        )

    def preconditioned(self, raw: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """D g by parameter name."""
        return {name: self.diagonal[name] * grad for name, grad in raw.items()}

    def contract(self, one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
        """K = g · D · g' of two raw gradients."""
        return sum(
            float((one[name] * each * other[name]).sum(dtype=each.dtype))
            for name, each in self.diagonal.items()
        )

    @cached_property
    def diagonal(self) -> dict[str, Tensor]:
        """D of the step by parameter name. It is as large as the model and computed once."""
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
                preconditioner=step,
                max_grad_norm=plan.max_grad_norm,
                clipped=clipped_parameters(self.optimizer, self.model, model),
                microbatch=plan.microbatch,
                check_coverage=False,
            )
            return job.diagonal()
