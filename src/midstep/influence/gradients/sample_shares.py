"""The share of each sample in the loss of a batch: found by computing the loss of smaller batches.

A loss is a sum over samples, or a mean with weights: equal ones, numbers of tokens, class weights.

    sum     L = Σ_j l_j                     mean     L = Σ_j a_j l_j / Σ_j a_j

Which one cannot be read from the loss of the whole batch: in a new model all l_j are alike, and
every mean gives the same number. So the loss is computed on a sample taken twice, [r, r], which
doubles a sum and leaves a mean as it is, and on each pair [r, j], whose gradient lies between those
of the two samples: G_rj = α g_r + (1−α) g_j with α = a_r / (a_r + a_j). Gradients differ where
losses do not. The shares must then give the gradient of the whole batch, or the loss is refused.

Shapes: B samples of the batch, S of them kept, C samples of a chunk, P parameters.
"""

# ruff: noqa: N815 - names end in their shape
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.sample_gradients import (
    SampleLoss,
    group_gradients,
    sample_count,
    take_sample,
)

TOLERANCE = 1e-3
"""Relative difference allowed between two gradients that should be equal, for float32 and wider."""


@dataclass(frozen=True, kw_only=True)
class WeightedGradients:
    """The gradients of the samples of a batch, and the share of each in the batch's loss."""

    losses_B: Tensor
    rows_SP: Tensor
    """Gradients of the first samples."""
    shares_B: Tensor
    """w_j of L = Σ_j w_j l_j."""
    total_P: Tensor
    """Σ_j w_j g_j over all samples."""

    @property
    def is_uniform(self) -> bool:
        """Whether all samples have the same share."""
        return bool((self.shares_B == self.shares_B[0]).all())


def weighted_gradients(
    model: nn.Module,
    loss_of: SampleLoss,
    batch: Any,
    weights: Mapping[str, Tensor],
    *,
    kept: int,
    together: bool = True,
    micro_batches: Sequence[int] | None = None,
) -> WeightedGradients:
    """Gradients of all samples, and their shares in the loss.

    Args:
        model: in evaluation mode, so that a sample's loss does not depend on the others.
        loss_of: computes the loss of a batch of any number of samples.
        batch: tensors, or a tree of them.
        weights: values of the parameters that count, by name.
        kept: gradients of the first samples to return.
        together: try `vmap` first.
        micro_batches: sizes of the micro-batches that `batch` was joined from; the step's loss is
            the mean of theirs. None: one.

    Raises:
        ConfigError: the loss is neither a sum nor a weighted mean over samples.
    """

    def gradients(groups: Sequence[Sequence[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        return group_gradients(model, loss_of, batch, weights, groups, together=together)

    search = _ShareSearch(gradients, batch, kept, _tolerance(weights))
    sizes = [search.count] if micro_batches is None else list(micro_batches)
    ends = torch.tensor(sizes).cumsum(0).tolist()
    parts = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return search.run(parts)


def _tolerance(weights: Mapping[str, Tensor]) -> float:
    epsilon = max(torch.finfo(each.dtype).eps for each in weights.values())
    return max(TOLERANCE, 8 * epsilon)


class _ShareSearch:
    """One search for the shares of a batch.

    Args:
        gradients: losses and gradients of groups of samples, chunk by chunk.
        batch: the batch.
        kept: gradients of the first samples are kept.
        tolerance: relative difference allowed between gradients that should be equal.
    """

    def __init__(
        self,
        gradients: Callable[[Sequence[Sequence[int]]], Iterator[tuple[Tensor, Tensor]]],
        batch: Any,
        kept: int,
        tolerance: float,
    ) -> None:
        self._gradients, self._batch, self._tolerance = gradients, batch, tolerance
        # Shares follow from inner products, in which the rounding of single values averages out.
        self._same_share = tolerance / 10
        self.count = sample_count(batch) or 0
        self._distances: dict[int, float] = {}
        losses, norms, rows = [], [], []
        stored, summed_P = 0, None
        for losses_C, grads_CP in gradients([[at] for at in range(self.count)]):
            losses.append(losses_C)
            norms.append(grads_CP.norm(dim=1))
            summed_P = grads_CP.sum(0) if summed_P is None else summed_P + grads_CP.sum(0)
            if stored < kept:
                rows.append(grads_CP[: kept - stored])
                stored += len(rows[-1])
        assert summed_P is not None  # noqa: S101 - there is at least one sample
        self._losses_B, self._norms_B = torch.cat(losses), torch.cat(norms)
        self._rows_SP, self._summed_P = torch.cat(rows), summed_P
        self._check_finite()

    def _check_finite(self) -> None:
        wrong = (~(self._losses_B.isfinite() & self._norms_B.isfinite())).nonzero().flatten()
        if len(wrong):
            at = int(wrong[0])
            raise ConfigError(
                f"the loss of sample {at} alone is {float(self._losses_B[at]):.4g}, or its "
                "gradient is not finite: in a mean over tokens a sample without any counted token "
                "has no loss; leave such samples out of the batch"
            )

    def run(self, parts: Sequence[range]) -> WeightedGradients:
        """The result, for micro-batches of these samples."""
        reference = int(self._norms_B.argmax())
        ratios_B: Tensor | None = None
        if not float(self._norms_B[reference]):  # no sample moves anything, whatever its share
            ratios_B = torch.ones(self.count, dtype=torch.float64)
        elif not self._is_sum(reference):
            ratios_B = self._ratios(reference)
        shares_B = torch.empty(self.count, dtype=torch.float64)
        for part in parts:
            rows = slice(part.start, part.stop)
            shares_B[rows] = 1.0 if ratios_B is None else ratios_B[rows] / ratios_B[rows].sum()
        shares_B /= len(parts)
        shares_B = shares_B.to(self._summed_P)
        total_P = self._weighted_sum(shares_B)
        self._check_whole(parts, shares_B, total_P)
        return WeightedGradients(
            losses_B=self._losses_B, rows_SP=self._rows_SP, shares_B=shares_B, total_P=total_P
        )

    def _row(self, at: int) -> Tensor:
        if at < len(self._rows_SP):
            return self._rows_SP[at]
        return next(self._gradients([[at]]))[1][0]

    def _is_sum(self, reference: int) -> bool:
        """Whether the loss of a sample taken twice is twice its loss; equal: a mean."""
        _, grads_1P = next(self._gradients([[reference, reference]]))
        single_P, scale = self._row(reference), float(self._norms_B[reference])
        for factor in (1, 2):
            if float((grads_1P[0] - factor * single_P).norm()) <= self._tolerance * scale:
                return factor == 2
        raise self._refusal(f"sample {reference} taken twice")

    def _ratios(self, reference: int) -> Tensor:
        """a_j / a_r of every sample, [B]."""
        ratios_B = torch.ones(self.count, dtype=torch.float64)
        others = [at for at in range(self.count) if at != reference]
        alike = self._add_ratios(ratios_B, reference, others)
        # Gradients like that of the reference: compared with the one that differs most from it.
        if alike and len(alike) < len(others):
            second = max(set(others) - set(alike), key=lambda at: self._distances[at])
            alike = self._add_ratios(ratios_B, second, alike)
        for at in alike:
            if not self._same_sample(at, reference):
                raise ConfigError(
                    f"samples {at} and {reference} have the same gradient, so their shares in the "
                    "loss cannot be told apart; use a batch with different samples"
                )
            ratios_B[at] = 1.0
        if float((ratios_B - 1).abs().max()) <= self._same_share:
            ratios_B.fill_(1.0)
        return ratios_B

    def _add_ratios(self, ratios_B: Tensor, reference: int, others: Sequence[int]) -> list[int]:
        """Write the ratios of `others`, and return those whose gradient is like the reference's."""
        base_P, alike, first = self._row(reference), [], 0
        scale = float(self._norms_B.max())
        self._distances = {}
        for _, pairs_CP in self._gradients([[reference, at] for at in others]):
            chunk = others[first : first + len(pairs_CP)]
            first += len(pairs_CP)
            for at, pair_P, single_P in zip(chunk, pairs_CP, self._singles(chunk), strict=True):
                difference_P = base_P - single_P
                self._distances[at] = float(difference_P.norm())
                if self._distances[at] <= self._tolerance * scale:
                    alike.append(at)
                    continue
                offset_P = pair_P - single_P
                share = float(offset_P @ difference_P / (difference_P @ difference_P))
                residual = float((offset_P - share * difference_P).norm())
                if residual > self._tolerance * scale or not 0 < share <= 1 + self._same_share:
                    raise self._refusal(f"samples {reference} and {at}")
                ratios_B[at] = ratios_B[reference] * max(0.0, 1 / share - 1)
        return alike

    def _singles(self, chunk: Sequence[int]) -> Iterator[Tensor]:
        """Gradients of single samples, computed again where they were not kept."""
        missing = [at for at in chunk if at >= len(self._rows_SP)]
        computed = (row for _, rows in self._gradients([[at] for at in missing]) for row in rows)
        for at in chunk:
            yield self._rows_SP[at] if at < len(self._rows_SP) else next(computed)

    def _same_sample(self, one: int, other: int) -> bool:
        pair = [take_sample(self._batch, at) for at in (one, other)]
        return _equal_trees(*pair)

    def _weighted_sum(self, shares_B: Tensor) -> Tensor:
        if bool((shares_B == shares_B[0]).all()):
            return shares_B[0] * self._summed_P
        if len(self._rows_SP) == self.count:
            return shares_B @ self._rows_SP
        total_P, first = torch.zeros_like(self._summed_P), 0
        for _, grads_CP in self._gradients([[at] for at in range(self.count)]):
            total_P += shares_B[first : first + len(grads_CP)] @ grads_CP
            first += len(grads_CP)
        return total_P

    def _check_whole(self, parts: Sequence[range], shares_B: Tensor, total_P: Tensor) -> None:
        """The shares must give the gradient of the batch, not only those of pairs."""
        whole_P = torch.zeros_like(total_P)
        for part in parts:
            whole_P += next(self._gradients([list(part)]))[1][0] / len(parts)
        scale = float(shares_B @ self._norms_B)
        difference = float((whole_P - total_P).norm())
        if not difference <= self._tolerance * max(scale, float(whole_P.norm())):
            raise self._refusal("the whole batch")

    def _refusal(self, where: str) -> ConfigError:
        return ConfigError(
            f"the loss of this batch is neither the mean (weighted or not) nor the sum of its "
            f"samples' losses, as {where} shows, so samples have no separate losses; influence "
            "needs a loss per sample"
        )


def _equal_trees(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, Mapping):
        return all(_equal_trees(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return all(_equal_trees(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)
