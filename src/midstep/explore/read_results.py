"""The columns of shown samples, from the losses of all samples of a step; for readers.

Everything here is on the host, so it may compare numbers without a wait of the training.
"""

# ruff: noqa: N806, N815 - names end in their shape
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from midstep.control.capture.sample_results import loss_fact
from midstep.explore.loss_shares import (
    contributions,
    is_close,
    loss_shares,
    possible_weights,
    sample_weights,
)
from midstep.explore.row_order import is_by_position

MIXES = "This loss mixes samples: the losses of single samples do not add up to it."
MOST_FAILURES = 20
"""After so many steps in which no guess gave the loss, none is tried any more."""


@dataclass
class LossGuess:
    """Which guess gave the loss. Readers write it, the training thread reads it."""

    index: int | None = None
    """Index of the right guess; None while it is not known."""
    failures: int = 0
    is_by_position: bool | None = None
    """Whether the rows of the loss come position by position; None while that is not known."""

    @property
    def has_given_up(self) -> bool:
        """Whether no guess is right."""
        return self.index is None and self.failures >= MOST_FAILURES


@dataclass(frozen=True)
class Combined:
    """The losses of one micro-batch, and how they combine to its loss."""

    losses_B: Tensor
    weights_B: Tensor


def read_results(
    *,
    micro_batches: Sequence[Sequence[Mapping[str, Any]]],
    predictions: Mapping[str, Any],
    first: int,
    stop: int,
    note: str | None,
    otherwise: str,
    loss_guess: LossGuess,
    heads: Mapping[str, Any] | None = None,
    batch_loss: Any = None,
) -> Mapping[str, Any]:
    """The columns of samples `first` up to `stop`; see `ShownSamples`.

    Args:
        micro_batches: for each the fields of its `SampleLosses`, for one guess or for several.
        predictions: the columns about the predictions, of these samples alone.
        first: the first sample.
        stop: the sample after the last one.
        note: why the losses are not known; None if they are computed.
        otherwise: the note if they do not combine to the loss that was seen.
        loss_guess: remembers which guess is right, and the order of the rows.
        heads: show that order; then each micro-batch has its losses in both orders.
        batch_loss: the loss of the step, where that of the micro-batches was not seen.
    """
    if note is not None or not micro_batches:
        return {**predictions, "loss_note": note}
    if heads is not None:
        loss_guess.is_by_position = is_by_position(heads)
        turned = int(loss_guess.is_by_position)
        micro_batches = [orders[turned : turned + 1] or orders for orders in micro_batches]
    combined, problem = _combine(micro_batches, batch_loss, loss_guess)
    if combined is None:
        return {**predictions, "loss_note": problem or otherwise}
    weights = torch.cat([each.weights_B for each in combined])
    # A sample of which nothing is counted, such as no token, has no loss by itself.
    losses = torch.where(weights == 0, 0.0, torch.cat([each.losses_B for each in combined]))
    shares = loss_shares(losses, weights)
    listed = losses.tolist()
    return {
        **predictions,
        "losses": losses[first:stop],
        "loss_shares": None if shares is None else shares[first:stop],
        "loss_fact": loss_fact(listed, None if shares is None else shares.tolist()),
    }


def _combine(
    micro_batches: Sequence[Sequence[Mapping[str, Any]]], batch_loss: Any, loss_guess: LossGuess
) -> tuple[list[Combined] | None, str | None]:
    """The micro-batches by the first guess that gives the loss; or None and the reason."""
    guesses = [list(each) for each in zip(*micro_batches, strict=False)]
    reason = None
    for index, losses in enumerate(guesses):
        reason = next((each["reason"] for each in losses if each["reason"] is not None), reason)
        if any(each["losses_B"] is None for each in losses):
            continue
        combined = _combine_guess(losses, batch_loss)
        if combined is not None:
            loss_guess.index = index if loss_guess.index is None else loss_guess.index
            return combined, None
    loss_guess.failures += loss_guess.index is None
    return (
        None,
        None if reason is None else f"The losses of single samples are not known: {reason}.",
    )


def _combine_guess(losses: Sequence[Mapping[str, Any]], batch_loss: Any) -> list[Combined] | None:
    """The losses of all micro-batches if they give the loss that was seen, else None."""
    if any(each["batch_loss"] is None for each in losses):
        return None if batch_loss is None else _combine_step(losses, float(batch_loss))
    combined = [_combine_micro_batch(each) for each in losses]
    known = [each for each in combined if each is not None]
    return known if len(known) == len(combined) else None


def _combine_micro_batch(losses: Mapping[str, Any]) -> Combined | None:
    """The losses of one micro-batch with weights that give its loss."""
    losses_B, whole = losses["losses_B"].cpu(), float(losses["batch_loss"])
    for counts_B in (*losses["counts"], None):
        counts = None if counts_B is None else counts_B.cpu()
        weights_B = sample_weights(losses_B, whole, counts, epsilon=losses["epsilon"])
        if weights_B is not None:
            return Combined(losses_B, weights_B)
    return None


def _combine_step(losses: Sequence[Mapping[str, Any]], step_loss: float) -> list[Combined] | None:
    """The same where only one loss of the whole step is known, as the loop logged it.

    With several micro-batches that may be their mean, their sum, or the loss of the last one, which
    is often divided by their number.
    """
    parts = [each["losses_B"].cpu() for each in losses]
    epsilon = max(float(each["epsilon"]) for each in losses)
    for weights in _ways(parts, losses):
        summed = [contributions(*each) for each in zip(parts, weights, strict=True)]
        totals = [float(each.sum()) for each in summed]
        size = max(float(each.abs().sum()) for each in summed)
        count = len(totals)
        likely = (math.fsum(totals) / count, totals[-1], totals[-1] / count, math.fsum(totals))
        if any(is_close(total, step_loss, size, epsilon) for total in likely):
            return [Combined(*each) for each in zip(parts, weights, strict=True)]
    return None


def _ways(
    parts: Sequence[Tensor], losses: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Tensor, ...]]:
    """Weights of the samples of each micro-batch, by each of the things that may be counted."""
    for counts in (*zip(*(each["counts"] for each in losses), strict=False), None):
        counted = [None if counts is None else each.cpu() for each in counts or parts]
        yield from zip(*map(possible_weights, parts, counted), strict=True)
