"""Proof, before any number is given, that every trained parameter is recorded and recorded rightly.

Two short sequences go through; the recorded gradient of the first is compared with autograd's. What
differs (a weight used in a way no hook sees) is computed by autograd, a sequence at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.influence.batches import Microbatch, SequenceBatch
from midstep.influence.factors import sum_type
from midstep.influence.head import Responses, logits_pass
from midstep.influence.passes import Passes, Side
from midstep.influence.tiles import tiles_of

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.anatomy import Anatomy

__all__ = ["Coverage", "probe_batch", "probe_coverage"]

PROBE_TOKENS = 8
NEAR = {torch.float64: 1e-6, torch.float32: 1e-3}
NEAR_HALF = 0.1


@dataclass(frozen=True)
class Coverage:
    """Which parameters are recorded how."""

    slow: list[str]
    """Not seen rightly by the hooks: autograd on each sequence, right but slow."""
    unused: list[str]
    """Not part of the graph of the log-probability: their gradient is zero."""


def probe_batch(batch: SequenceBatch) -> SequenceBatch:
    """Two short pieces of a batch, every token but the first counted."""
    part = Microbatch(batch, list(range(min(2, len(batch)))))
    ids = part.input_ids[:, :PROBE_TOKENS]
    if len(ids) == 1:
        ids = torch.cat([ids, ids.flip(1)])
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False
    return SequenceBatch(ids, mask)


_proved: WeakKeyDictionary[nn.Module, tuple[frozenset[tuple[int, str]], Coverage]] = (
    WeakKeyDictionary()
)


def probe_coverage(anatomy: Anatomy, trained: dict[int, str], batch: SequenceBatch) -> Coverage:
    """Compare recorded gradients with autograd's; once for a model and its parameters."""
    key = frozenset(trained.items())
    known = _proved.get(anatomy.model)
    if known is None or known[0] != key:
        known = (key, _compared(anatomy, trained, batch))
        _proved[anatomy.model] = known
    return known[1]


def _compared(anatomy: Anatomy, trained: dict[int, str], batch: SequenceBatch) -> Coverage:
    side = Side([Microbatch(batch, [0, 1])], batch.response_mask.float())
    passes = Passes(anatomy, trained)
    side.begin()
    passes.one(side, 0)
    truth = _autograd(anatomy, trained, batch)
    floor = sum(float(each.double().square().sum()) for each in truth.values() if each is not None)
    slow, unused = [], []
    for name, true in truth.items():
        recorded = name in side.records[0].factors
        if true is None and not recorded:
            unused.append(name)
        elif true is None or not recorded or not _same(side, name, true, floor**0.5):
            slow.append(name)
    return Coverage(slow, unused)


def _autograd(
    anatomy: Anatomy, trained: dict[int, str], batch: SequenceBatch
) -> dict[str, Tensor | None]:
    """The gradient of the first sequence's score alone."""
    counted = [each for each in anatomy.model.parameters() if id(each) in trained]
    for each in counted:
        each.requires_grad_()
    try:
        with torch.enable_grad():
            logits = anatomy.logits(batch.input_ids)
        seeds = batch.response_mask.float()
        seeds[1:] = 0
        responses = Responses.of(Microbatch(batch, [0, 1]), seeds, sum_type(logits))
        if not logits.requires_grad:
            raise ConfigError("no trained parameter has a part in the logits: nothing to compute")
        grads = torch.autograd.grad(
            logits, counted, logits_pass(logits, responses).grad, allow_unused=True
        )
    finally:
        for each in counted:
            each.requires_grad_(False)  # noqa: FBT003 - its only argument
    return {trained[id(p)]: g for p, g in zip(counted, grads, strict=True)}


def _same(side: Side, name: str, true: Tensor, whole: float) -> bool:
    """Within rounding, of its own size or (where it is only noise) of the whole gradient's."""
    uses = side.records[0].factors[name]
    by_rows = any(each.by_rows for each in uses)
    error = true.new_zeros((), dtype=torch.float64)
    for tile in tiles_of(
        name, true, values=2**22, most_rows=1 << 30, dtype=true.dtype, by_rows=by_rows
    ):
        out = torch.empty((2, *tile.shape), dtype=true.dtype, device=true.device)
        side.rows(tile, out)
        error += (out[0] - tile.of(true)).double().square().sum()
    size = float(true.double().square().sum().sqrt())
    return float(error.sqrt()) <= NEAR.get(true.dtype, NEAR_HALF) * (size + 0.01 * whole)
