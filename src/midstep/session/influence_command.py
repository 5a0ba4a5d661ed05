"""The command `influence`: which samples of the last batch changed which sample's loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from midstep.control.panels import Field, Panel, Sort
from midstep.core.commands.catalog import INFLUENCE, InfluencePayload
from midstep.core.errors import ControlError
from midstep.data.batch_structure import join
from midstep.data.random_state import preserve_rng
from midstep.session.fit.default_step import default_forward, move
from midstep.session.hooks.installed_hook import hooks_paused
from midstep.session.ranks import why_no_moves

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController
    from midstep.influence.batch_influence import BatchInfluence
    from midstep.session.state.training_parts import UserStep

MATRIX_KEY, TABLE_KEY, NOTES_KEY = "influence", "influence_samples", "influence_notes"
PAIRS_RETURNED = 10
"""Pairs of samples in the result of the command."""


@dataclass(frozen=True, kw_only=True)
class InfluenceSource:
    """What the command computes with; only the training thread may use it."""

    model: nn.Module
    optimizers: Sequence[Optimizer]
    loss_fn: Callable[..., Any] | None = None
    """A function of output and label, if the user wrote no step."""
    step: Callable[[], UserStep | None] = lambda: None
    """The user's own step, if there is one."""
    batches: Callable[[], Sequence[Any]] = tuple
    """The micro-batches of the last step while they are held; else the captured batch is used."""
    sizes: Callable[[], Sequence[int | None]] = tuple
    """Samples of each micro-batch of the last step, where the loop scales their losses itself."""
    grad_clip_norm: float | None = None

    def loss_of(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """The loss of a batch as the training computes it."""
        return default_forward(model, self.loss_fn, batch, self.step()).loss


def register_influence(controller: DebugController, source: InfluenceSource) -> Callable[[], None]:
    """Offer the command for any loop; returns how to withdraw it."""
    controller.queue.refuse_if(INFLUENCE, why_no_moves)  # it runs the model
    return controller.queue.register(
        INFLUENCE, lambda payload: _compute(controller, source, payload)
    )


def _compute(
    controller: DebugController, source: InfluenceSource, payload: InfluencePayload
) -> dict[str, Any]:
    """Compute, show on the page, and return the largest pairs. The training is not affected."""
    from midstep.influence.batch_influence import batch_influence
    from midstep.influence.gradients.sample_gradients import sample_count

    captured = controller.captures.reader.batch()
    # A captured batch has the index of its step, which is one less than the finished steps.
    if captured is None or captured["step"] != controller.boundary.finished_steps - 1:
        raise ControlError(
            "the batch of the last step was not captured whole; pause the run, make one step, then "
            "try again"
        )
    batches = list(source.batches())
    device = next(source.model.parameters()).device
    batch = move(join(batches) if batches else captured["batch"], device)
    sizes = _micro_batch_sizes(batches)
    _check_complete(sample_count(batch), sizes, captured["sample_ids"])
    # The forward passes here must leave no trace: dropout would move generators, and hooks would
    # record activations of a pass that is not a step.
    with preserve_rng(), hooks_paused():
        influence = batch_influence(
            source.model,
            source.optimizers,
            source.loss_of,
            batch,
            samples=payload.samples,
            grad_clip_norm=source.grad_clip_norm,
            micro_batches=sizes,
        )
    _check_shares(source.sizes(), influence)
    names = _sample_names(captured["sample_ids"], influence)
    _show(controller, influence, names)
    _show_notes(controller, influence)
    return _result(influence, names, controller.boundary.finished_steps)


def _check_complete(held: int | None, sizes: list[int] | None, sample_ids: Any) -> None:
    """Raise an error when some micro-batches of the step were not kept or could not be joined."""
    in_step = len(sample_ids) if sample_ids is not None else 0
    if sizes is not None:
        in_step = sum(sizes)
    if held and held < in_step:
        raise ControlError(
            f"only {held} of the {in_step} samples of this step are held: its micro-batches differ "
            "in shape or are many. Pad all batches to one length, or step without accumulation "
            "while you look"
        )


def _check_shares(sizes: Sequence[int | None], influence: BatchInfluence) -> None:
    """Raise an error when the shares of samples depend on how the loop scales its micro-batches."""
    if len(sizes) > 1 and (len(set(sizes)) > 1 or not influence.has_equal_shares):
        raise ControlError(
            f"this step gathered {len(sizes)} micro-batches whose samples have different shares in "
            "its gradient, by their number or as in a mean over tokens, and how the loop scales "
            "each is unknown. Make a step with one batch, or train with midstep.Session"
        )


def _micro_batch_sizes(batches: Sequence[Any]) -> list[int] | None:
    """Samples of each micro-batch: an accumulated step takes the mean of their losses."""
    from midstep.influence.gradients.sample_gradients import sample_count

    sizes = [sample_count(each) for each in batches]
    known = [size for size in sizes if size]
    return known if len(known) == len(sizes) > 1 else None


def _sample_names(sample_ids: Any, influence: BatchInfluence) -> list[str]:
    """Ids of the shown samples if they are known, else their positions in the batch."""
    ids = list(sample_ids) if sample_ids is not None else []
    if len(ids) < influence.samples:
        ids = list(range(influence.samples))
    return [str(int(each)) for each in ids[: len(influence.losses_S)]]


def _show(controller: DebugController, influence: BatchInfluence, names: list[str]) -> None:
    controller.captures.add_step_data(
        MATRIX_KEY,
        {
            "matrix": influence.contribution_SS.float().cpu(),
            "labels": names,
            "column_labels": [f"by {name}" for name in names],
        },
        panel=Panel(kind="matrix", title="Loss of row moved by column", scale="range"),
    )
    most = influence.contribution_SS.abs().argmax(1).tolist()
    controller.captures.add_step_data(
        TABLE_KEY,
        {
            "sample": names,
            "loss": influence.losses_S.float().cpu(),
            "change": influence.change_S.float().cpu(),
            "by_itself": influence.contribution_SS.diagonal().float().cpu(),
            "by_the_batch": (influence.contribution_SS.sum(1) + influence.others_S).float().cpu(),
            "by_momentum_and_decay": influence.rest_S.float().cpu(),
            "most_by": [names[at] for at in most],
        },
        panel=Panel(
            kind="table",
            title="Change of each sample's loss by the last step",
            label="sample",
            sort=Sort(field="change", descending=False),
            fields={
                "by_itself": Field(label="by itself"),
                "by_the_batch": Field(label="by the batch"),
                "by_momentum_and_decay": Field(label="by momentum, decay"),
                "most_by": Field(label="most by"),
            },
        ),
    )


def _show_notes(controller: DebugController, influence: BatchInfluence) -> None:
    """Show the notes on the numbers in a panel of their own."""
    if influence.notes:
        text = "\n".join(f"{note[:1].upper()}{note[1:]}." for note in influence.notes)
        panel = Panel(kind="text", title="About these influences")
        controller.captures.add_step_data(NOTES_KEY, text, panel=panel)


def _result(influence: BatchInfluence, names: list[str], step: int) -> dict[str, Any]:
    """The result of the command: bounded, however large the batch is."""
    pairs = influence.contribution_SS.clone()
    pairs.fill_diagonal_(0)  # the influence of a sample on itself is in the table
    order = pairs.abs().flatten().argsort(descending=True)[:PAIRS_RETURNED].tolist()
    positions = [divmod(at, len(names)) for at in order]
    top = [
        {"sample": names[row], "by": names[column], "change": float(pairs[row, column])}
        for row, column in positions
        if row != column
    ]
    change = influence.change_S
    text = "; ".join(
        [
            f"the last step changed the loss of {len(names)} samples by {float(change.mean()):.3g} "
            f"on average, {int((change < 0).sum())} of them went down",
            *influence.notes,
        ]
    )
    return {
        "step": step,
        "samples": len(names),
        "of": influence.samples,
        "mean_change": float(change.mean()),
        "top": top,
        "notes": list(influence.notes),
        "shown_as": [MATRIX_KEY, TABLE_KEY],
        "text": text,
    }
