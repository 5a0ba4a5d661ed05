"""Per-sequence gradients of one parameter, stored as the factors that they are products of.

The gradient of a weight [A, C] for one sequence of T tokens is a sum of T outer products. Its
factors have T·(A + C) values instead of A·C, so gradients are made from them tile by tile.

Shapes: B sequences of a micro-batch, T tokens, A and C the two sides of a weight [A, C], R rows of
a tile, V vocabulary, K flattened tokens.
"""

# ruff: noqa: N815 - names end in their shape
from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch

from midstep.influence.gradients.execution import fused

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.tiles import Tile


class Factor(Protocol):
    """The gradients of one use of a parameter by one micro-batch."""

    by_rows: bool
    """Whether tiles must be cut along the first axis of the parameter."""

    def add_rows(self, out_BRC: Tensor, tile: Tile, *, first: bool) -> None:
        """Write (`first`) or add the per-sequence gradients of a tile to `out_BRC`."""

    def dot(self, direction: Tensor) -> Tensor:
        """[B] inner products of the gradients with a tensor of the parameter's shape."""


def _multiply_into(out_BRC: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """Write or add one matrix product per sequence."""
    # Straight into the tile where the types agree: a copy of a tile is another pass over memory.
    if first and out_BRC.dtype == left.dtype:
        torch.bmm(left, right, out=out_BRC)
    else:
        _write_or_add(out_BRC, torch.bmm(left, right), first=first)


def _write_or_add(out: Tensor, values: Tensor, *, first: bool) -> None:
    if first:
        out.copy_(values)
    else:
        out.add_(values)


@dataclass
class OuterFactor:
    """A linear map: the gradient of its weight [A, C] is Σ_t left_t ⊗ right_t."""

    left_BTA: Tensor
    right_BTC: Tensor
    by_rows: bool = False

    def add_rows(self, out_BRC: Tensor, tile: Tile, *, first: bool) -> None:
        """One matrix product per sequence, of the rows or columns of the tile."""
        left, right = self.left_BTA, self.right_BTC
        part = slice(tile.start, tile.stop)
        if tile.axis == 0:
            left = left[:, :, part]
        else:
            right = right[:, :, part]
        if tile.transposed:
            left, right = right, left
        _multiply_into(out_BRC, left.mT, right, first=first)

    def dot(self, direction: Tensor) -> Tensor:
        """Σ_t left_t · direction · right_t; the longer side is multiplied first: it is cheaper."""
        direction = direction.to(self.left_BTA.dtype)
        if direction.shape[0] < direction.shape[1]:
            return row_dots(self.right_BTC @ direction.mT, self.left_BTA)
        return row_dots(self.left_BTA @ direction, self.right_BTC)


@dataclass(frozen=True)
class _TokensById:
    """Tokens sorted by id: ids as a list and as a tensor, their sequences, their gradients."""

    ids: list[int]
    rows: Tensor
    sequences: Tensor
    grads: Tensor


@dataclass
class EmbeddingFactor:
    """An embedding table: the gradient of each token's output belongs to the row of its id."""

    ids_BT: Tensor
    grads_BTC: Tensor
    padding_idx: int | None = None
    by_rows: bool = True

    def add_rows(self, out_BRC: Tensor, tile: Tile, *, first: bool) -> None:
        """Add the gradients of the tokens whose id is in the tile."""
        if first:
            out_BRC.zero_()
        order = self._tokens_by_id
        part = slice(bisect_left(order.ids, tile.start), bisect_left(order.ids, tile.stop))
        if part.start < part.stop:
            # Flat index sequence · tile rows + row, so that one scatter serves all sequences.
            rows = (
                torch.add(order.rows[part], order.sequences[part], alpha=tile.length) - tile.start
            )
            grads = order.grads[part].to(out_BRC.dtype)
            out_BRC.view(-1, tile.other_length).index_add_(0, rows, grads)

    @cached_property
    def _tokens_by_id(self) -> _TokensById:
        """Counted tokens in the order of their ids, so that the tokens of a tile are contiguous."""
        counted = self._is_counted().flatten().nonzero().flatten()
        order = counted[self.ids_BT.flatten()[counted].argsort()]
        ids = self.ids_BT.flatten()[order]
        return _TokensById(
            ids=ids.tolist(),
            rows=ids,
            sequences=order // self.ids_BT.shape[1],
            grads=self.grads_BTC.flatten(0, 1)[order],
        )

    def dot(self, direction: Tensor) -> Tensor:
        """Σ_t grad_t · direction[id_t]."""
        picked = direction[self.ids_BT].to(self.grads_BTC.dtype) * self._is_counted()[..., None]
        return row_dots(picked, self.grads_BTC)

    # torch gives the row of `padding_idx` no gradient.
    def _is_counted(self) -> Tensor:
        if self.padding_idx is None:
            return torch.ones_like(self.ids_BT, dtype=torch.bool)
        return self.ids_BT != self.padding_idx


@dataclass
class HeadFactor:
    """The output head: softmax gradients are recomputed from the saved logsumexp, tile by tile.

    Storing them would take T·V values per sequence: 512 × 151,936 for the measured 1.5 B model.
    """

    hidden_BTC: Tensor
    targets_BT: Tensor
    token_weights_BT: Tensor
    """Weight of each token's log-probability, 0 at padding."""
    logsumexp_BT: Tensor
    weight_VC: Tensor
    bias_V: Tensor | None = None
    by_rows: bool = True

    def _logit_gradients(self, start: int, stop: int) -> Tensor:
        """Token weight · (onehot − softmax) for the words `start:stop`, [B, T, R]."""
        logits_KR = matmul_wide(self.hidden_BTC.flatten(0, 1), self.weight_VC[start:stop].mT)
        # The GPU version is compiled into one kernel; on a CPU each pass over memory counts.
        softmax_gradients = softmax_rows if logits_KR.is_cuda else softmax_rows_in_place
        return softmax_gradients(
            logits_KR.view(*self.targets_BT.shape, -1),
            None if self.bias_V is None else self.bias_V[start:stop],
            self.targets_BT - start,
            self.token_weights_BT,
            self.logsumexp_BT,
            self.hidden_BTC.dtype,
        )

    def add_rows(self, out_BRC: Tensor, tile: Tile, *, first: bool) -> None:
        """Gradients of the logits of the tile's words, times the hidden states."""
        rows_BRT = self._logit_gradients(tile.start, tile.stop).mT
        _multiply_into(out_BRC, rows_BRT, self.hidden_BTC, first=first)

    def dot(self, direction: Tensor, *, rows: int = 4096) -> Tensor:
        """Σ_t Σ_v dlogits_tv (hidden_t · direction_v), in blocks of `rows` words."""
        total = torch.zeros(
            len(self.hidden_BTC),
            dtype=accumulation_dtype(self.hidden_BTC),
            device=self.hidden_BTC.device,
        )
        for start in range(0, len(direction), rows):
            part = direction[start : start + rows].to(self.hidden_BTC.dtype)
            total += row_dots(
                self._logit_gradients(start, start + len(part)) @ part, self.hidden_BTC
            )
        return total


@fused
def softmax_rows(
    logits_BTR: Tensor,
    bias_R: Tensor | None,
    targets_BT: Tensor,
    token_weights_BT: Tensor,
    logsumexp_BT: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """Token weight · (onehot − softmax) for a tile; targets count from the tile's first word."""
    if bias_R is not None:
        logits_BTR = logits_BTR + bias_R
    words_R = torch.arange(logits_BTR.shape[-1], device=logits_BTR.device)
    softmax_BTR = (logits_BTR - logsumexp_BT[..., None]).exp()
    grads_BTR = (words_R == targets_BT[..., None]).to(softmax_BTR.dtype) - softmax_BTR
    return (grads_BTR * token_weights_BT[..., None]).to(dtype)


def softmax_rows_in_place(
    logits_BTR: Tensor,
    bias_R: Tensor | None,
    targets_BT: Tensor,
    token_weights_BT: Tensor,
    logsumexp_BT: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The same on a CPU: it overwrites the logits, because they are still in the cache."""
    if bias_R is not None:
        logits_BTR += bias_R
    logits_BTR.sub_(logsumexp_BT[..., None]).exp_().mul_(-token_weights_BT[..., None])
    words = logits_BTR.shape[-1]
    # Most targets lie outside of the tile; only those inside get the 1 of onehot.
    inside_K = ((targets_BT >= 0) & (targets_BT < words)).flatten().nonzero().flatten()
    if len(inside_K):
        flat_K = inside_K * words + targets_BT.flatten()[inside_K]
        logits_BTR.view(-1).index_add_(0, flat_K, token_weights_BT.flatten()[inside_K])
    return logits_BTR.to(dtype)


@fused
def row_dots(left_BTC: Tensor, right_BTC: Tensor) -> Tensor:
    """[B] sums of products over everything but the first axis."""
    return (left_BTC * right_BTC).flatten(1).sum(1, dtype=accumulation_dtype(left_BTC))


def matmul_wide(left: Tensor, right: Tensor) -> Tensor:
    """A matrix product, with sums and result in float32 for half-precision inputs."""
    dtype = accumulation_dtype(left)
    if left.is_cuda and left.dtype != dtype:
        return torch.mm(left, right, out_dtype=dtype)
    return (left @ right).to(dtype)


@dataclass
class StoredFactor:
    """Whole per-sequence gradients: of small parameters (biases, norms) and of unknown modules."""

    grads_B: Tensor
    """[B, *shape of the parameter]."""
    by_rows: bool = False

    def add_rows(self, out_BRC: Tensor, tile: Tile, *, first: bool) -> None:
        """Copy the rows of the tile."""
        if self.grads_B.dim() == 3:
            part = self.grads_B.narrow(1 + tile.axis, tile.start, tile.length)
            part = part.mT if tile.transposed else part
        else:
            part = self.grads_B.flatten(1)[:, tile.start : tile.stop, None]
        _write_or_add(out_BRC, part.to(out_BRC.dtype), first=first)

    def dot(self, direction: Tensor) -> Tensor:
        """Plain inner products."""
        flat = self.grads_B.flatten(1)
        return (flat * direction.reshape(-1).to(flat.dtype)).sum(1, dtype=accumulation_dtype(flat))


def accumulation_dtype(values: Tensor) -> torch.dtype:
    """The type of sums over many values: float32 for half precision."""
    return values.dtype if values.dtype == torch.float64 else torch.float32
