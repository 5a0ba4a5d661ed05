"""Groups of parameters for the report, and a probe that every parameter is recorded correctly.

Hooks cannot know every module that a user writes. So recorded gradients are compared with autograd
on two short sequences before any number is given. What differs is computed by autograd instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import nn

from midstep.influence.gradients.batch_gradient import score_gradients, square_norm
from midstep.influence.gradients.gradient_recorder import RecordedBatch
from midstep.influence.gradients.model_passes import ModelPasses
from midstep.influence.gradients.sequences import Microbatch, SequenceBatch
from midstep.influence.gradients.tiles import split_into_tiles

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.model_parts import ModelParts


_NAME_PATTERNS = (
    ("adapter", r"lora_|adapter|ia3_"),
    ("norm", r"(^|[._])(ln|norm|layernorm|rmsnorm)|norm(\d|$|[._])|(^|\.)ln_"),
    ("position", r"wpe|position|(^|\.)places"),
    ("attention_qkv", r"q_proj|k_proj|v_proj|c_attn|qkv|query|(^|\.)key(\.|$)|(^|\.)value(\.|$)"),
    (
        "attention_out",
        r"o_proj|out_proj|attn\.c_proj|attention\.(out|dense|o)|self_attention\.dense",
    ),
)


def parameter_groups(
    model: nn.Module, names: Sequence[str], head: nn.Module | None
) -> Mapping[str, str]:
    """The group of each parameter. A tied embedding counts as head."""
    parameters = dict(model.named_parameters())
    embedding_ids = {
        id(each)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for each in module.parameters(recurse=False)
    }
    head_ids = {id(each) for each in head.parameters()} if head is not None else set()
    return {name: _group(name, parameters[name], embedding_ids, head_ids) for name in names}


def _group(name: str, parameter: Tensor, embedding_ids: set[int], head_ids: set[int]) -> str:
    lower = name.lower()
    # Adapters and norms first: their biases belong to them, all other biases to "bias".
    for group, pattern in _NAME_PATTERNS[:2]:
        if re.search(pattern, lower):
            return group
    if lower.endswith("bias"):
        return "bias"
    if id(parameter) in head_ids or "lm_head" in lower:
        return "head"
    for group, pattern in _NAME_PATTERNS[2:]:
        if re.search(pattern, lower):
            return group
    return "embedding" if id(parameter) in embedding_ids else "mlp"


PROBE_TOKENS = 8
TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Allowed difference from autograd, relative to the gradient's norm, by type."""
HALF_TOLERANCE = 0.1
"""The same for bfloat16 and float16."""


@dataclass(frozen=True)
class Coverage:
    """The parameters that hooks do not record."""

    slow: list[str]
    """Recorded wrongly or not at all: autograd on each sequence computes them, which is slow."""
    unused: list[str]
    """Without influence on the log-probability: their gradient is zero."""


def probe_batch(batch: SequenceBatch) -> SequenceBatch:
    """The first tokens of two sequences; every token but the first counts."""
    part = Microbatch(batch, list(range(min(2, len(batch)))))
    ids = part.input_ids[:, :PROBE_TOKENS]
    # Two rows are needed to see whether gradients of different sequences are kept apart.
    if len(ids) == 1:
        ids = torch.cat([ids, ids.flip(1)])
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[:, 0] = False
    return SequenceBatch(ids, mask)


# Weak keys: the cache must not keep a large model alive.
_coverage_by_model: WeakKeyDictionary[nn.Module, tuple[frozenset[tuple[int, str]], Coverage]] = (
    WeakKeyDictionary()
)


def probe_coverage(parts: ModelParts, trained: dict[int, str], batch: SequenceBatch) -> Coverage:
    """Compare recorded gradients with autograd's, once for a model and its set of parameters."""
    # Other parameters may count in the next call with the same model.
    key = frozenset(trained.items())
    cached = _coverage_by_model.get(parts.model)
    if cached is None or cached[0] != key:
        cached = (key, _compare_with_autograd(parts, trained, batch))
        _coverage_by_model[parts.model] = cached
    return cached[1]


def _compare_with_autograd(
    parts: ModelParts, trained: dict[int, str], batch: SequenceBatch
) -> Coverage:
    recorded = RecordedBatch([Microbatch(batch, [0, 1])], batch.response_mask.float())
    passes = ModelPasses(parts, trained)
    recorded.begin()
    passes.run_microbatch(recorded, 0)
    expected = _autograd_gradients(parts, trained, batch)
    used = {name: gradient for name, gradient in expected.items() if gradient is not None}
    total_norm = square_norm(used) ** 0.5
    slow, unused = [], []
    for name, gradient in expected.items():
        is_recorded = name in recorded.records[0].factors
        if not is_recorded and name not in used:
            unused.append(name)
        elif not is_recorded or not _matches_autograd(recorded, name, gradient, total_norm):
            slow.append(name)
    return Coverage(slow, unused)


def _autograd_gradients(
    parts: ModelParts, trained: dict[int, str], batch: SequenceBatch
) -> dict[str, Tensor | None]:
    """The gradient of the first sequence's score alone, in a batch of two."""
    counted: list[Tensor] = [each for each in parts.model.parameters() if id(each) in trained]
    token_weights = batch.response_mask.float()
    # The second sequence has weight 0: a hook that mixes the two gives another gradient.
    token_weights[1:] = 0
    grads = score_gradients(parts, Microbatch(batch, [0, 1]), token_weights, counted)
    return {trained[id(p)]: g for p, g in zip(counted, grads, strict=True)}


def _matches_autograd(
    recorded: RecordedBatch, name: str, expected: Tensor | None, total_norm: float
) -> bool:
    """Whether a recorded gradient equals autograd's up to rounding.

    A gradient that is only noise is measured by the whole gradient's norm, not by its own.
    """
    if expected is None:
        return False
    uses = recorded.records[0].factors[name]
    by_rows = any(each.by_rows for each in uses)
    error = expected.new_zeros((), dtype=torch.float64)
    for tile in split_into_tiles(
        name, expected, max_values=2**22, max_rows=1 << 30, dtype=expected.dtype, by_rows=by_rows
    ):
        out = torch.empty((2, *tile.shape), dtype=expected.dtype, device=expected.device)
        recorded.rows(tile, out)
        error += (out[0] - tile.take(expected)).double().square().sum()
    size = float(expected.double().square().sum().sqrt())
    return float(error.sqrt()) <= TOLERANCES.get(expected.dtype, HALF_TOLERANCE) * (
        size + 0.01 * total_norm
    )
