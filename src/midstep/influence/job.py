"""One computation from its checked inputs to its result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from midstep.core.errors import ConfigError
from midstep.influence.anatomy import Anatomy, take_apart
from midstep.influence.block import DeltaTerms, KernelBlock
from midstep.influence.contraction import KernelSums, SweepTask
from midstep.influence.coverage import groups_of
from midstep.influence.coverage_probe import Coverage, probe_batch, probe_coverage
from midstep.influence.direction import contract, token_tangents
from midstep.influence.factors import StoredFactor
from midstep.influence.gradients import (
    clip_factor_of,
    directions_of,
    score,
    square_norm,
    summed_gradient,
)
from midstep.influence.inputs import check_fits, sequences_of, trained_parameters, weights_of
from midstep.influence.passes import Passes, Side
from midstep.influence.planner import Algorithm, CostPlan, Mode, choose, measured_rate
from midstep.influence.stopwatch import Stopwatch, unwatched
from midstep.influence.sweep import KernelSweep
from midstep.influence.tiles import Tile
from midstep.influence.workload import free_bytes_on, workload_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from midstep.influence.batches import SequenceBatch
    from midstep.influence.preconditioners import AdamPreconditioner, SgdPreconditioner

__all__ = ["KernelJob", "Want"]

Want = Literal["EU", "UU", "delta"]
TOKENS_CPU = 2048
TOKENS_GPU = 32768


class KernelJob:
    """Model, batches and weights, checked; then a plan, then its result.

    Args:
        model: a causal language model.
        update: U.
        evaluation: E or None.
        weights: w; None takes the batch's own.
        parameters: names or patterns that count.
        microbatch: most sequences of a pass.
        spill: folder for borders in mode bounded.
    """

    preconditioner: AdamPreconditioner | SgdPreconditioner
    anatomy: Anatomy
    passes: Passes
    _moving_log_pi: Tensor

    def __init__(
        self,
        model: nn.Module,
        update: Any,
        evaluation: Any,
        *,
        weights: Tensor | Sequence[float] | None = None,
        parameters: Sequence[str] | None = None,
        microbatch: int | None = None,
        spill: Path | None = None,
    ) -> None:
        self.model, self.spill, self.microbatch = model, spill, microbatch
        self.trained = trained_parameters(model, parameters)
        self.parameters = {
            self.trained[id(each)]: each for each in model.parameters() if id(each) in self.trained
        }
        self.batch_u = sequences_of(update, model)
        check_fits(self.batch_u, model, "the update")
        self.weights, seeds = weights_of(weights, update, self.batch_u)
        self.update = self._side(self.batch_u, seeds)
        self.evaluation: Side | None = None
        if evaluation is not None:
            batch_e = sequences_of(evaluation, model)
            check_fits(batch_e, model, "the evaluation")
            self.evaluation = self._side(batch_e, batch_e.response_mask.to(seeds.dtype))
        self.max_grad_norm: float | None = None
        self.stopwatch: Stopwatch = unwatched
        self.coverage = Coverage([], [])

    def _side(self, batch: SequenceBatch, seeds: Tensor) -> Side:
        most = TOKENS_GPU if batch.input_ids.is_cuda else TOKENS_CPU
        if batch.input_ids.is_cuda and self.microbatch is not None:
            most = batch.input_ids.numel()  # the caller knows what fits
        return Side(batch.buckets(most, self.microbatch), seeds)

    def look_inside(self, *, check: bool = True) -> None:
        """Find the model's seams and prove the recording; the model must be `standing`."""
        probe = probe_batch(self.batch_u)
        self.anatomy = take_apart(self.model, probe.input_ids)
        if check:
            self.coverage = probe_coverage(self.anatomy, self.trained, probe)
        self.passes = Passes(
            self.anatomy,
            self.trained,
            slow=self.coverage.slow,
            spill=self.spill,
            stopwatch=self.stopwatch,
            probe_ids=probe.input_ids,
        )

    def plan(self, want: Collection[Want], algorithm: Algorithm, mode: Mode) -> CostPlan:
        """What will be done and what it costs."""
        unknown = set(want) - {"EU", "UU", "delta"}
        if unknown or not want:
            raise ConfigError(f"want {sorted(want)!r}: choose from 'EU', 'UU', 'delta'")
        kernel = bool({"EU", "UU"} & set(want))
        if kernel and algorithm in {"direction", "jvp"}:
            raise ConfigError(
                f"algorithm {algorithm!r} gives Δ alone: ask for want=('delta',), or use 'sweep'"
            )
        work = workload_of(
            self.anatomy,
            self.trained,
            self.update,
            self.evaluation,
            wants_kernel=kernel,
            norm_first=self.max_grad_norm is not None,
        )
        example = next(iter(self.parameters.values()))
        rate = measured_rate(example.device, example.dtype)
        free_bytes = free_bytes_on(example.device)
        made = choose(work, algorithm, mode, rate=rate, free_bytes=free_bytes)
        if made.mode != "bounded":
            return made
        # What blocks leave out is proved by running them, so only where they will run again.
        work = replace(work, parameters_spared=self.passes.parameters_spared())
        return choose(work, algorithm, mode, rate=rate, free_bytes=free_bytes)

    def run(
        self, plan: CostPlan, want: Collection[Want], *, terms: bool = True, norms: bool = True
    ) -> KernelBlock:
        """The result of a plan."""
        if plan.algorithm in {"direction", "jvp"}:
            return self._along_direction(plan, terms=terms)
        return self._swept(plan, want, norms=norms)

    # -- K ------------------------------------------------------------------------------------

    def _swept(self, plan: CostPlan, want: Collection[Want], *, norms: bool) -> KernelBlock:
        sides = [self.update] if self.evaluation is None else [self.update, self.evaluation]
        if self.max_grad_norm is not None:
            self._find_clip_factor()
        task = SweepTask(
            update=self.update,
            evaluation=self.evaluation,
            weights_U=self.weights[self.update.places],
            preconditioner=self.preconditioner,
            parameters=self.parameters,
            groups=groups_of(self.model, list(self.parameters), self.anatomy.head),
            with_uu="UU" in want or self.evaluation is None,
            with_drift="delta" in want,
            with_norms=norms,
        )
        sweep = KernelSweep(task, stopwatch=self.stopwatch)
        if plan.algorithm == "resident":
            for side in sides:
                self.keep_gradients(side)
            sweep.consume(list(self.parameters))
        else:
            stages = self.passes.bounded if plan.mode == "bounded" else self.passes.resident
            for ready in stages(sides):
                sweep.consume(ready)
        return self._block_of(sweep.finished(), plan, want)

    def _find_clip_factor(self) -> tuple[dict[str, Tensor], float]:
        """Σ_j w_j g_j by a plain backward pass, and its norm, which sets c."""
        with self.stopwatch("gradient of the update"):
            side = self.loss_side()
            ascent = summed_gradient(self.anatomy, self.trained, side)
            self._moving_log_pi = side.log_pi()
        norm = square_norm(ascent) ** 0.5
        if self.max_grad_norm is not None:
            self.preconditioner.clip_factor = clip_factor_of(norm, self.max_grad_norm)
        return ascent, norm

    def _log_pi_u(self) -> Tensor:
        """Of U: from its own pass, else from the gradient's, and scored where the weight is 0."""
        if self.update.logp:
            return self.update.log_pi()
        found = self._moving_log_pi.new_empty(len(self.weights))
        moves = (self.weights != 0).to(found.device)
        found[moves] = self._moving_log_pi
        if not bool(moves.all()):
            still = moves.logical_not().nonzero().flatten().to(self.update.seeds_NT.device)
            side = self._side(self.batch_u.select(still), self.update.seeds_NT[still])
            score(self.anatomy, side)
            found[~moves] = side.log_pi()
        return found

    def loss_side(self) -> Side:
        """U with its weights in the seeds; sequences of weight zero are left out."""
        moving = self.weights.nonzero().flatten()
        seeds = self.update.seeds_NT[moving] * self.weights[moving, None]
        return self._side(self.batch_u.select(moving), seeds)

    def keep_gradients(self, side: Side) -> None:
        """Full per-sequence gradients of a side, in place of its factors."""
        side.begin()
        for index, record in enumerate(side.records):
            self.passes.one(side, index)
            for name, parameter in self.parameters.items():
                columns = parameter.shape[1] if parameter.dim() == 2 else 1
                rows = parameter.numel() // columns
                tile = Tile(name, 0, 0, rows, columns, parameter.dtype, parameter.device)
                out = torch.zeros(
                    (record.sequences, rows, columns),
                    dtype=parameter.dtype,
                    device=parameter.device,
                )
                for number, factor in enumerate(record.factors.pop(name, [])):
                    factor.add_rows(out, tile, first=number == 0)
                record.add(name, StoredFactor(out.view(record.sequences, *parameter.shape)))

    def gradients(self) -> dict[str, Tensor]:
        """[N, *shape] of every parameter for U, in the batch's order."""
        self.keep_gradients(self.update)
        back = torch.tensor(self.update.places).argsort()
        found = {}
        for name in self.parameters:
            rows = [record.factors[name][0] for record in self.update.records]
            stored = [each.grads_B for each in rows if isinstance(each, StoredFactor)]
            found[name] = torch.cat(stored)[back.to(stored[0].device)]
        return found

    def _block_of(self, sums: KernelSums, plan: CostPlan, want: Collection[Want]) -> KernelBlock:
        device, count_u = sums.kernel.device, len(self.update)
        back_u = torch.tensor(self.update.places, device=device).argsort()
        first = count_u if "UU" in want or self.evaluation is None else 0
        uu = _symmetric(sums.kernel[:first][back_u][:, back_u]) if first else None
        eu = back_e = None
        if self.evaluation is not None:
            back_e = torch.tensor(self.evaluation.places, device=device).argsort()
            eu = sums.kernel[first:][back_e][:, back_u]
        terms = terms_u = None
        if sums.drift is not None:
            terms = None if back_e is None else self._terms(eu, sums.drift[first:][back_e])
            terms_u = self._terms(uu, sums.drift[:first][back_u]) if first else None
        norms = self._norms(sums.squares, back_u, back_e)
        if not norms and uu is not None:
            norms = {"norms_u": uu.diagonal().clamp_min(0).sqrt()}
        traces = {name: float(each) for name, each in sorted(sums.traces.items())}
        whole = sum(traces.values()) or 1.0
        return self._result(
            plan,
            k_eu=eu if "EU" in want else None,
            k_uu=uu,
            terms=terms,
            terms_u=terms_u,
            coverage={name: each / whole for name, each in traces.items()},
            gradient_norm=float(sums.gradient_square) ** 0.5,
            **norms,
        )

    def _norms(
        self, squares: Tensor | None, back_u: Tensor, back_e: Tensor | None
    ) -> dict[str, Tensor]:
        if squares is None:
            return {}
        roots, count_u = squares.clamp_min(0).sqrt(), len(self.update)
        own, other = roots[:count_u][back_u], roots[count_u:]
        found = {"norms_u": own[:, 0], "raw_norms_u": own[:, 1]}
        if back_e is not None:
            found |= {"norms_e": other[back_e][:, 0], "raw_norms_e": other[back_e][:, 1]}
        return found

    def _terms(self, block: Tensor | None, drift: Tensor | None) -> DeltaTerms | None:
        if block is None or drift is None:
            return None
        step = self.preconditioner
        kernel = step.rate * step.clip_factor * (block @ self.weights.to(block))
        return DeltaTerms(
            kernel=step.lr * kernel, momentum=step.lr * drift[:, 0], decay=step.lr * drift[:, 1]
        )

    # -- Δ alone ------------------------------------------------------------------------------

    def _along_direction(self, plan: CostPlan, *, terms: bool) -> KernelBlock:
        ascent, norm = self._find_clip_factor()
        with self.stopwatch("directions"):
            found = directions_of(ascent, self.parameters, self.preconditioner)
            parts = found.parts() if terms else {"total": found.total()}
            parts = {label: self._in_work_type(each) for label, each in parts.items()}
        del ascent, found
        side = self.update if self.evaluation is None else self.evaluation
        tokens: Tensor | None = None
        if plan.algorithm == "jvp":
            made = {key: token_tangents(self.anatomy, side, each) for key, each in parts.items()}
            tokens = self.preconditioner.lr * torch.stack(list(made.values())).sum(0)
            seeds = side.seeds_NT.double()
            sums = {key: (each * seeds).sum(1) for key, each in made.items()}
            score(self.anatomy, side)
        else:
            sums = contract(self.passes, side, parts)
        whole = self.preconditioner.lr * torch.stack(list(sums.values())).sum(0)
        split = DeltaTerms(**sums).scaled(self.preconditioner.lr) if terms else None
        own = self.evaluation is None
        return self._result(
            plan,
            delta=None if own else whole,
            delta_u=whole if own else None,
            terms=None if own else split,
            terms_u=split if own else None,
            token_delta=tokens,
            gradient_norm=norm,
        )

    def _in_work_type(self, direction: dict[str, Tensor]) -> dict[str, Tensor]:
        """Converted once, not for every micro-batch."""
        return {name: each.to(self.parameters[name].dtype) for name, each in direction.items()}

    def _result(
        self,
        plan: CostPlan,
        *,
        terms: DeltaTerms | None,
        terms_u: DeltaTerms | None,
        gradient_norm: float,
        delta: Tensor | None = None,
        delta_u: Tensor | None = None,
        k_eu: Tensor | None = None,
        k_uu: Tensor | None = None,
        token_delta: Tensor | None = None,
        norms_u: Tensor | None = None,
        norms_e: Tensor | None = None,
        raw_norms_u: Tensor | None = None,
        raw_norms_e: Tensor | None = None,
        coverage: dict[str, float] | None = None,
    ) -> KernelBlock:
        step = self.preconditioner
        return KernelBlock(
            k_eu=k_eu,
            k_uu=k_uu,
            delta_logpi=terms.total() if terms is not None else delta,
            terms=terms,
            delta_logpi_u=terms_u.total() if terms_u is not None else delta_u,
            terms_u=terms_u,
            token_delta=token_delta,
            weights=self.weights,
            norms_u=norms_u,
            norms_e=norms_e,
            raw_norms_u=raw_norms_u,
            raw_norms_e=raw_norms_e,
            logpi_u=self._log_pi_u(),
            logpi_e=None if self.evaluation is None else self.evaluation.log_pi(),
            coverage=coverage or {},
            slow_parameters=self.coverage.slow,
            unused_parameters=self.coverage.unused,
            preconditioner=step.name,
            lr=step.lr,
            rate=step.rate,
            clip_factor=step.clip_factor,
            gradient_norm=gradient_norm,
            plan=plan,
        )


def _symmetric(block: Tensor) -> Tensor:
    """Rounding differs between the two halves; their mean is symmetric."""
    return (block + block.mT) / 2
