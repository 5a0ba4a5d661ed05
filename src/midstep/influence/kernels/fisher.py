"""`fisher_kernel`: how much each sequence of an update changes the log-probability of another.

G = −Σ_j w_j g_j     K_ij = g_i · D · g_j

with g = ∂ log π/∂θ of a sequence, w the weights of the loss, D the diagonal of the optimizer step:
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
from midstep.influence.gradients.model_checks import check_padding_token
from midstep.influence.gradients.model_parts import eval_mode
from midstep.influence.kernels.kernel_inputs import (
    check_positive,
    clipped_parameters,
    step_preconditioner,
    trained_parameters,
)
from midstep.influence.kernels.kernel_job import KernelJob, Want

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from midstep.influence.kernels.kernel_block import KernelBlock
    from midstep.influence.kernels.planner import Algorithm, Mode
    from midstep.influence.optimizers.adam_state import AdamState
    from midstep.influence.optimizers.preconditioners import PreconditionerName

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
        optimizer: `torch.optim.AdamW` with its state (or Adam without decay), an `AdamState`, or
            for sgd a `torch.optim.SGD` without momentum; sgd needs none. Others are refused.
        preconditioner: adam_post (D after the step), adam_state (D as stored), sgd (1). `sgd` with
            an AdamW is the plain inner product at rate 1, not the step of that AdamW.
        weights: w of the loss −Σ_j w_j log π_j: [N], one per sequence, or [N, T], one per token
            (then K has one row and column per weighted score, each of weight 1). None: the
            weights of the batch, else 1/N.
        want: what to compute: EU and UU are blocks of K, delta is the predicted change.
        algorithm: auto, sweep, direction, jvp or resident; see `midstep.influence.kernels.planner`.
        dtype: type of the computation, on a copy of the model; None: the model's.
        microbatch: the most sequences of one pass.
        parameters: names or patterns (`*.mlp.*`) that count; None: all that require gradients.
        mode: of the sweep: resident keeps all activations, bounded runs blocks again.
        lr: η; None: the optimizer's (the largest of its groups).
        clip_factor: c, if the trainer knows it; otherwise it follows from `max_grad_norm`.
        max_grad_norm: clip as `torch.nn.utils.clip_grad_norm_` does over all parameters of the
            optimizer, also those that `parameters` leaves out.
        fresh_state: accept an optimizer that has not made a step yet.
        terms: False sums momentum and decay into one direction where only Δ is wanted (cheaper).
        spill: folder for the stored inputs of blocks in mode bounded; None: memory.
        check_coverage: compare recorded gradients with autograd on two short sequences.
        norms: also compute the norms of every sequence.
        announce: called with the planner's line before the work starts; None: the log.
        stopwatch: called with the name of each phase, and used as a `with` block around it.

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
    step = step_preconditioner(
        preconditioner,
        optimizer,
        model,
        list(trained_parameters(model, parameters).values()),
        lr=lr,
        clip_factor=1.0 if clip_factor is None else clip_factor,
        fresh=fresh_state,
    )
    # The state is bound by name before the copy: it belongs to the parameters of the original.
    original = model
    floats = {each.dtype for each in model.parameters() if each.is_floating_point()}
    if dtype is not None and floats != {dtype}:
        model = copy.deepcopy(model).to(dtype)
    trained = trained_parameters(model, parameters)
    clipped = clipped_parameters(optimizer, original, model)
    with eval_mode(model, frozen=True), torch.no_grad():
        job = KernelJob(
            model,
            trained,
            update,
            evaluation,
            weights=weights,
            preconditioner=step,
            max_grad_norm=None if clip_factor is not None else max_grad_norm,
            clipped=clipped,
            microbatch=microbatch,
            spill=spill,
            check_coverage=check_coverage,
            timer=stopwatch,
        )
        explained = job.batch_u if job.batch_e is None else job.batch_e
        check_padding_token(model, trained, explained)
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
    """Gradients [N, *shape] of every sequence's log-probability, by parameter name.

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
