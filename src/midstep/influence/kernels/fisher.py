"""`fisher_kernel`: which sequences of an update moved the log-probability of that one.

G = −Σ_j w_j g_j     K_ij = g_i · D · g_j
Δ log π_i = η (rate · c Σ_j K_ij w_j + momentum_i + decay_i) + O(η²)
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from midstep.influence.gradients.execution import PhaseTimer, no_timer
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.kernels.kernel_inputs import (
    bind_adam_state,
    check_positive,
    sgd_learning_rate,
    sgd_weight_decay,
    trained_parameters,
)
from midstep.influence.kernels.kernel_job import KernelJob, Want
from midstep.influence.optimizers.preconditioners import PreconditionerName, make_preconditioner

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.kernels.kernel_block import KernelBlock
    from midstep.influence.kernels.planner import Algorithm, Mode
    from midstep.influence.optimizers.adam_state import AdamState

_log = logging.getLogger("midstep.influence")


def fisher_kernel(
    model: nn.Module,
    update: Any,
    evaluation: Any = None,
    *,
    optimizer: Optimizer | AdamState | None = None,
    preconditioner: PreconditionerName = "adam_post",
    weights: Tensor | Sequence[float] | None = None,
    want: Collection[Want] = ("EU", "UU", "delta"),
    algorithm: Algorithm = "auto",
    dtype: torch.dtype | None = None,
    microbatch: int | None = None,
    parameters: Sequence[str] | None = None,
    mode: Mode = "auto",
    lr: float | None = None,
    clip_factor: float | None = None,
    max_grad_norm: float | None = None,
    fresh_state: bool = False,
    terms: bool = True,
    spill: Path | None = None,
    check_coverage: bool = True,
    norms: bool = True,
    announce: Callable[[str], None] | None = None,
    stopwatch: PhaseTimer = no_timer,
) -> KernelBlock:
    """The exact Fisher kernel of one optimizer step, over all trained parameters.

    Args:
        model: any causal language model: token ids [N, T] to logits (or an object with `.logits`).
        update: the batch U of the step, a `SequenceBatch` or anything with `.sequence_batch()`.
        evaluation: the batch E whose log-probabilities move; None: only U itself.
        optimizer: `torch.optim.AdamW` with its state, or an `AdamState`; not needed for sgd.
        preconditioner: adam_post (D after the step), adam_state (D as stored), sgd (1).
        weights: w of the loss −Σ_j w_j log π_j: [N] a sequence, or [N, T] a token (then U's side of
            K is of the weighted scores, each of weight 1). None: the batch's own, else 1/N.
        want: EU and UU are blocks of K, delta the predicted change.
        algorithm: auto, sweep, direction, jvp or resident; see `midstep.influence.kernels.planner`.
        dtype: compute in this type, on a copy of the model.
        microbatch: most sequences a pass takes at once.
        parameters: names or patterns (`*.mlp.*`) that count; None: all that require gradients.
        mode: of the sweep: resident keeps activations, bounded runs blocks again.
        lr: η; None: the optimizer's (the largest of its groups).
        clip_factor: c, where the trainer knows it; otherwise from `max_grad_norm`.
        max_grad_norm: clip as `torch.nn.utils.clip_grad_norm_` does.
        fresh_state: accept an optimizer before its first step.
        terms: False sums momentum and decay into one direction where only Δ is wanted (cheaper).
        spill: folder for the residual stream in mode bounded.
        check_coverage: prove on two short sequences that each parameter is recorded rightly.
        norms: whether every sequence's norms are wanted beside K.
        announce: called with the plan's line before the work starts; None: the log.
        stopwatch: told of each phase as it begins and ends.

    >>> from midstep.influence import SequenceBatch
    >>> from midstep.models.causal_lm import CausalLM, CausalLMConfig
    >>> model = CausalLM(CausalLMConfig(vocab_size=11, width=8, layers=1, heads=2)).double()
    >>> ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    >>> batch = SequenceBatch(ids, torch.tensor([[0, 1, 1], [0, 1, 1]]))
    >>> block = fisher_kernel(model, batch, preconditioner="sgd", weights=[1.0, -1.0])
    >>> tuple(block.k_uu.shape), bool((block.k_uu == block.k_uu.T).all())
    ((2, 2), True)
    """
    check_positive(lr=lr, clip_factor=clip_factor, max_grad_norm=max_grad_norm)
    state = bind_adam_state(optimizer, model, fresh=fresh_state, needed=preconditioner != "sgd")
    decay = sgd_weight_decay(optimizer, model)
    if dtype is not None and dtype != next(model.parameters()).dtype:
        model = copy.deepcopy(model).to(dtype)
    trained = trained_parameters(model, parameters)
    step = make_preconditioner(
        preconditioner,
        state,
        list(trained.values()),
        lr=lr if lr is not None else sgd_learning_rate(optimizer),
        decay=decay,
        clip_factor=1.0 if clip_factor is None else clip_factor,
    )
    with eval_mode(model, frozen=True), torch.no_grad():
        job = KernelJob(
            model,
            trained,
            update,
            evaluation,
            weights=weights,
            preconditioner=step,
            max_grad_norm=None if clip_factor is not None else max_grad_norm,
            microbatch=microbatch,
            spill=spill,
            check_coverage=check_coverage,
            timer=stopwatch,
        )
        plan = job.plan(want, algorithm, mode)
        (announce or _log.info)(plan.describe())
        return job.run(plan, want, terms=terms, norms=norms)


def per_sequence_gradients(
    model: nn.Module,
    batch: Any,
    *,
    parameters: Sequence[str] | None = None,
    microbatch: int | None = None,
) -> dict[str, Tensor]:
    """Full gradients [N, *shape] of every sequence's log-probability, by parameter name.

    >>> from midstep.influence import SequenceBatch
    >>> from midstep.models.causal_lm import CausalLM, CausalLMConfig
    >>> model = CausalLM(CausalLMConfig(vocab_size=11, width=8, layers=1, heads=2))
    >>> batch = SequenceBatch(torch.tensor([[1, 2, 3]]), torch.tensor([[0, 1, 1]]))
    >>> per_sequence_gradients(model, batch)["norm.weight"].shape
    torch.Size([1, 8])
    """
    trained = trained_parameters(model, parameters)
    with eval_mode(model, frozen=True), torch.no_grad():
        return KernelJob(model, trained, batch, microbatch=microbatch).gradients()
