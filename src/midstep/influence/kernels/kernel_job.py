"""One kernel computation: checked inputs, the plan, the passes, the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from midstep.core.errors import ConfigError
from midstep.influence.gradients.batch_gradient import (
    clipping_factor,
    score,
    square_norm,
    summed_gradient,
)
from midstep.influence.gradients.coverage import (
    Coverage,
    parameter_groups,
    probe_batch,
    probe_coverage,
)
from midstep.influence.gradients.execution import PhaseTimer, no_timer
from midstep.influence.gradients.factors import StoredFactor
from midstep.influence.gradients.gradient_recorder import RecordedBatch
from midstep.influence.gradients.model_checks import check_causal_lm
from midstep.influence.gradients.model_parts import find_model_parts
from midstep.influence.gradients.model_passes import ModelPasses
from midstep.influence.gradients.tiles import Tile
from midstep.influence.kernels.direction import contract_directions, step_directions, token_tangents
from midstep.influence.kernels.kernel_block import DeltaTerms, KernelBlock
from midstep.influence.kernels.kernel_inputs import (
    check_fits,
    loss_weights,
    to_sequence_batch,
)
from midstep.influence.kernels.planner import (
    Algorithm,
    CostPlan,
    Mode,
    choose_algorithm,
    free_memory_bytes,
    measure_matmul_rate,
    measure_workload,
)
from midstep.influence.kernels.tile_contraction import KernelSums, KernelSweep, SweepInputs
from midstep.influence.optimizers.preconditioners import SgdPreconditioner

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.influence.gradients.sequences import SequenceBatch
    from midstep.influence.optimizers.preconditioners import Preconditioner

Want = Literal["EU", "UU", "delta"]
TOKENS_CPU = 2048  # tokens of a micro-batch, padding included
TOKENS_GPU = 32768


class KernelJob:
    """One computation on a model. The constructor checks the inputs; then call `plan` and `run`.

    Create and use it inside `eval_mode(model, frozen=True)` and `torch.no_grad()`.

    Args:
        model: a causal language model.
        trained: names of the parameters that count, by identity; see `trained_parameters`.
        update: U.
        evaluation: E or None.
        weights: w of the loss; None takes the batch's own.
        preconditioner: D of the step; None is the identity with learning rate 1.
        max_grad_norm: the trainer clips the gradient to this norm; None: no clipping.
        clipped: names of all parameters whose gradients are clipped together, by identity; None:
            those of `trained`.
        microbatch: most sequences of a pass.
        spill: folder for the stored block inputs in mode bounded; None keeps them in memory.
        check_coverage: compare recorded gradients with autograd's on two short sequences.
        timer: called with the name of each phase.
    """

    def __init__(
        self,
        model: nn.Module,
        trained: dict[int, str],
        update: Any,
        evaluation: Any = None,
        *,
        weights: Tensor | Sequence[float] | None = None,
        preconditioner: Preconditioner | None = None,
        max_grad_norm: float | None = None,
        clipped: dict[int, str] | None = None,
        microbatch: int | None = None,
        spill: Path | None = None,
        check_coverage: bool = True,
        timer: PhaseTimer = no_timer,
    ) -> None:
        self.model, self.trained, self.microbatch = model, trained, microbatch
        self._clipped = trained if clipped is None else {**clipped, **trained}
        self._clipped_norm: float | None = None
        self.preconditioner = preconditioner or SgdPreconditioner(lr=1.0, decay={})
        self.max_grad_norm, self.timer = max_grad_norm, timer
        self.parameters = {
            trained[id(each)]: each for each in model.parameters() if id(each) in trained
        }
        self.batch_u = to_sequence_batch(update, model)
        check_fits(self.batch_u, model, "the update")
        self.weights, token_weights = loss_weights(weights, update, self.batch_u)
        self.update = self._recorded_batch(self.batch_u, token_weights)
        self.evaluation: RecordedBatch | None = None
        self.batch_e: SequenceBatch | None = None
        if evaluation is not None:
            self.batch_e = to_sequence_batch(evaluation, model)
            check_fits(self.batch_e, model, "the evaluation")
            self.evaluation = self._recorded_batch(
                self.batch_e, self.batch_e.response_mask.to(token_weights.dtype)
            )
        self._weighted_log_pi: Tensor | None = None
        # One probe for three tests: the parts of the model, its coverage, the skippable maps.
        probe = probe_batch(self.batch_u)
        check_causal_lm(model, probe.input_ids, trained)
        self.parts = find_model_parts(model, probe.input_ids)
        # Off for true steps and D alone: they use autograd, not recorded factors.
        self.coverage = Coverage([], [])
        if check_coverage:
            self.coverage = probe_coverage(self.parts, trained, probe)
        self.passes = ModelPasses(
            self.parts,
            trained,
            slow=self.coverage.slow,
            spill=spill,
            timer=timer,
            probe_ids=probe.input_ids,
        )

    def _recorded_batch(self, batch: SequenceBatch, token_weights: Tensor) -> RecordedBatch:
        max_tokens = TOKENS_GPU if batch.input_ids.is_cuda else TOKENS_CPU
        if batch.input_ids.is_cuda and self.microbatch is not None:
            max_tokens = batch.input_ids.numel()  # `microbatch` alone decides what fits
        return RecordedBatch(batch.buckets(max_tokens, self.microbatch), token_weights)

    def plan(self, want: Collection[Want], algorithm: Algorithm, mode: Mode) -> CostPlan:
        """Choose the algorithm, and estimate its cost."""
        unknown = set(want) - {"EU", "UU", "delta"}
        if unknown or not want:
            raise ConfigError(f"want must name some of 'EU', 'UU', 'delta'; got {sorted(want)!r}")
        wants_kernel = bool({"EU", "UU"} & set(want))
        if wants_kernel and algorithm in {"direction", "jvp"}:
            raise ConfigError(
                f"algorithm {algorithm!r} computes Δ alone: pass want=('delta',), or use 'sweep'"
            )
        work = measure_workload(
            self.parts,
            self.trained,
            self.update,
            self.evaluation,
            wants_kernel=wants_kernel,
            norm_first=self.max_grad_norm is not None,
        )
        example = next(iter(self.parameters.values()))
        rate = measure_matmul_rate(example.device, example.dtype)
        free_bytes = free_memory_bytes(example.device)
        plan = choose_algorithm(work, algorithm, mode, rate=rate, free_bytes=free_bytes)
        if plan.mode != "bounded":
            return plan
        # Which maps a second run skips is tested by running the blocks, so only where they run
        # twice.
        work = replace(work, parameters_skipped=self.passes.parameters_skipped())
        return choose_algorithm(work, algorithm, mode, rate=rate, free_bytes=free_bytes)

    def run(
        self, plan: CostPlan, want: Collection[Want], *, terms: bool = True, norms: bool = True
    ) -> KernelBlock:
        """Compute the result as planned."""
        if plan.algorithm in {"direction", "jvp"}:
            return self._run_direction(plan, terms=terms)
        return self._run_sweep(plan, want, norms=norms)

    # -- K ------------------------------------------------------------------------------------

    def _run_sweep(self, plan: CostPlan, want: Collection[Want], *, norms: bool) -> KernelBlock:
        batches = [self.update] if self.evaluation is None else [self.update, self.evaluation]
        if self.max_grad_norm is not None:
            self._sum_gradient()
        inputs = SweepInputs(
            update=self.update,
            evaluation=self.evaluation,
            weights_U=self.weights[self.update.row_order],
            preconditioner=self.preconditioner,
            parameters=self.parameters,
            groups=parameter_groups(self.model, list(self.parameters), self.parts.head),
            with_uu="UU" in want or self.evaluation is None,
            with_momentum_decay="delta" in want,
            with_norms=norms,
        )
        # Each yielded set of parameters is contracted before the passes continue, so factors of one
        # block are in memory at a time.
        sweep = KernelSweep(inputs, timer=self.timer)
        if plan.algorithm == "resident":
            for batch in batches:
                self.store_gradients(batch)
            sweep.consume(list(self.parameters))
        else:
            stages = self.passes.bounded if plan.mode == "bounded" else self.passes.resident
            for ready in stages(batches):
                sweep.consume(ready)
        return self._block_from_sums(sweep.total(), plan, want)

    def _sum_gradient(self) -> tuple[dict[str, Tensor], set[str], float]:
        """Σ_j w_j g_j = −G by a plain backward pass, the parameters that it reaches, and |G|.

        A trainer clips by the norm of all gradients, also of parameters that do not count here.
        """
        clips = self.max_grad_norm is not None
        summed = self._clipped if clips else self.trained
        with self.timer("gradient of the update"):
            batch = self.loss_batch()
            ascent, reached = summed_gradient(self.parts, summed, batch)
            self._weighted_log_pi = batch.log_pi()
            reached |= self._reached_without_weight(set(self.trained.values()) - reached)
        norm = square_norm(ascent) ** 0.5
        if clips:
            self._clipped_norm = norm
            self.preconditioner.clip_factor = clipping_factor(norm, self.max_grad_norm)
        return {name: ascent[name] for name in self.parameters}, reached, norm

    def _reached_without_weight(self, names: set[str]) -> set[str]:
        """Which of these parameters only sequences of weight 0 use.

        Their gradient is 0 after a trainer's backward pass, not None, so the optimizer steps them.
        """
        if not names:
            return set()
        unweighted = (self.weights == 0).nonzero().flatten()
        if not len(unweighted):
            return set()
        token_weights = torch.zeros_like(self.update.token_weights_NT[unweighted])
        batch = self._recorded_batch(self.batch_u.select(unweighted), token_weights)
        asked = {key: name for key, name in self.trained.items() if name in names}
        return summed_gradient(self.parts, asked, batch)[1]

    def _log_pi_u(self) -> Tensor:
        """Log π of U: from its recorded pass, else from the pass of the summed gradient.

        The summed gradient leaves out sequences of weight 0; those are scored here.
        """
        if self.update.logp:
            return self.update.log_pi()
        if self._weighted_log_pi is None:
            raise RuntimeError("neither U nor its summed gradient was computed")
        log_pi = self._weighted_log_pi.new_empty(len(self.weights))
        is_weighted = (self.weights != 0).to(log_pi.device)
        log_pi[is_weighted] = self._weighted_log_pi
        if not bool(is_weighted.all()):
            unweighted = (self.weights == 0).nonzero().flatten()
            batch = self._recorded_batch(
                self.batch_u.select(unweighted), self.update.token_weights_NT[unweighted]
            )
            score(self.parts, batch)
            log_pi[~is_weighted] = batch.log_pi()
        return log_pi

    def loss_batch(self, *, with_unweighted: bool = False) -> RecordedBatch:
        """U with w multiplied into the token weights; sequences of weight 0 only on request."""
        weighted = torch.arange(len(self.weights), device=self.weights.device)
        if not with_unweighted:
            weighted = self.weights.nonzero().flatten()
        token_weights = self.update.token_weights_NT[weighted] * self.weights[weighted, None]
        return self._recorded_batch(self.batch_u.select(weighted), token_weights)

    def store_gradients(self, batch: RecordedBatch) -> None:
        """Replace the factors of a batch by full per-sequence gradients."""
        batch.begin()
        for index, record in enumerate(batch.records):
            self.passes.run_microbatch(batch, index)
            for name, parameter in self.parameters.items():
                tile = Tile.whole(name, parameter, parameter.dtype)
                out = torch.empty(
                    (record.sequences, *tile.shape), dtype=tile.dtype, device=tile.device
                )
                record.rows(tile, out)
                record.factors[name] = [StoredFactor(out.view(record.sequences, *parameter.shape))]

    def gradients(self) -> dict[str, Tensor]:
        """Per-sequence gradients [N, *shape] of U by parameter name, in the order of the batch."""
        self.store_gradients(self.update)
        batch_order = torch.tensor(self.update.row_order).argsort()
        gradients = {}
        for name in self.parameters:
            rows = [record.factors[name][0] for record in self.update.records]
            stored = [each.grads_B for each in rows if isinstance(each, StoredFactor)]
            gradients[name] = torch.cat(stored)[batch_order.to(stored[0].device)]
        return gradients

    def _block_from_sums(
        self, sums: KernelSums, plan: CostPlan, want: Collection[Want]
    ) -> KernelBlock:
        device, count_u = sums.kernel.device, len(self.update)
        order_u = torch.tensor(self.update.row_order, device=device).argsort()
        first = count_u if "UU" in want or self.evaluation is None else 0
        # Rows and columns come in the order of the micro-batches; batch order is what callers see.
        uu = sums.kernel[:first][order_u][:, order_u] if first else None
        if uu is not None:
            uu = (uu + uu.mT) / 2  # rounding differs between the two halves
        eu = order_e = None
        if self.evaluation is not None:
            order_e = torch.tensor(self.evaluation.row_order, device=device).argsort()
            eu = sums.kernel[first:][order_e][:, order_u]
        changes: dict[str, Any] = {}
        if sums.momentum_decay is not None and uu is not None:
            terms_u = self._terms(uu, sums.momentum_decay[:first][order_u])
            changes |= {"terms_u": terms_u, "delta_logpi_u": terms_u.total()}
        if sums.momentum_decay is not None and eu is not None:
            terms = self._terms(eu, sums.momentum_decay[first:][order_e])
            changes |= {"terms": terms, "delta_logpi": terms.total()}
        norms = self._norms(sums.squares, order_u, order_e)
        if not norms and uu is not None:
            norms = {"norms_u": uu.diagonal().clamp_min(0).sqrt()}
        traces = {name: float(each) for name, each in sorted(sums.traces.items())}
        total = sum(traces.values()) or 1.0
        return self._result(
            plan,
            k_eu=eu if "EU" in want else None,
            k_uu=uu,
            coverage={name: each / total for name, each in traces.items()},
            gradient_norm=float(sums.gradient_square) ** 0.5
            if self._clipped_norm is None
            else self._clipped_norm,
            **changes,
            **norms,
        )

    def _norms(
        self, squares: Tensor | None, order_u: Tensor, order_e: Tensor | None
    ) -> dict[str, Tensor]:
        if squares is None:
            return {}
        roots, count_u = squares.clamp_min(0).sqrt(), len(self.update)
        of_u = roots[:count_u][order_u]
        norms = {"norms_u": of_u[:, 0], "raw_norms_u": of_u[:, 1]}
        if order_e is not None:
            of_e = roots[count_u:][order_e]
            norms |= {"norms_e": of_e[:, 0], "raw_norms_e": of_e[:, 1]}
        return norms

    def _terms(self, block: Tensor, momentum_decay: Tensor) -> DeltaTerms:
        """Δ log π = η (rate · c K w + momentum + decay), by term."""
        step = self.preconditioner
        return DeltaTerms(
            kernel=step.rate * step.clip_factor * (block @ self.weights.to(block)),
            momentum=momentum_decay[:, 0],
            decay=momentum_decay[:, 1],
        ).scaled(step.lr)

    # -- Δ alone ------------------------------------------------------------------------------

    def _run_direction(self, plan: CostPlan, *, terms: bool) -> KernelBlock:
        ascent, reached, norm = self._sum_gradient()
        with self.timer("directions"):
            by_label = step_directions(ascent, self.parameters, self.preconditioner, reached)
            if not terms:
                by_label = {
                    "total": {
                        name: each + by_label["momentum"][name] + by_label["decay"][name]
                        for name, each in by_label["kernel"].items()
                    }
                }
            # Converted once, instead of in every micro-batch.
            by_label = {
                label: {name: each.to(self.parameters[name].dtype) for name, each in part.items()}
                for label, part in by_label.items()
            }
        # `by_label` has all that the passes need; this is as large as the model.
        del ascent
        batch = self.update if self.evaluation is None else self.evaluation
        token_delta: Tensor | None = None
        if plan.algorithm == "jvp":
            tangents = {
                key: token_tangents(self.parts, batch, each) for key, each in by_label.items()
            }
            token_delta = self.preconditioner.lr * torch.stack(list(tangents.values())).sum(0)
            token_weights = batch.token_weights_NT.double()
            sums = {key: (each * token_weights).sum(1) for key, each in tangents.items()}
            score(self.parts, batch)
        else:
            sums = contract_directions(self.passes, batch, by_label)
        total = self.preconditioner.lr * torch.stack(list(sums.values())).sum(0)
        split = DeltaTerms(**sums).scaled(self.preconditioner.lr) if terms else None
        changes = {"delta_logpi": split.total() if split is not None else total, "terms": split}
        if self.evaluation is None:
            changes = {f"{name}_u": each for name, each in changes.items()}
        return self._result(plan, **changes, token_delta=token_delta, gradient_norm=norm)

    def diagonal(self) -> dict[str, Tensor]:
        """D of the step by parameter name, in the shape of each parameter."""
        ascent, _, _ = self._sum_gradient()
        diagonal = {}
        for name, total in ascent.items():
            tile = Tile.whole(name, total, total.dtype)
            diagonal_RC = self.preconditioner.diagonal(tile, -tile.take(total))
            diagonal[name] = diagonal_RC.reshape(total.shape)
        return diagonal

    def _result(self, plan: CostPlan, **computed: Any) -> KernelBlock:
        """A block of `computed` fields and of those that every algorithm gives."""
        step = self.preconditioner
        return KernelBlock(
            weights=self.weights,
            logpi_u=self._log_pi_u(),
            logpi_e=None if self.evaluation is None else self.evaluation.log_pi(),
            slow_parameters=self.coverage.slow,
            unused_parameters=self.coverage.unused,
            preconditioner=step.name,
            lr=step.lr,
            rate=step.rate,
            clip_factor=step.clip_factor,
            plan=plan,
            **computed,
        )
