"""The command `influence`: which samples of the last batch moved which sample's loss."""

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

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController
    from midstep.influence.batch_influence import BatchInfluence
    from midstep.session.fit.default_step import UserStep
    from midstep.session.session import Session

__all__ = ["InfluenceSource", "offer_influence", "register_influence"]

MATRIX_KEY, TABLE_KEY, NOTES_KEY = "influence", "influence_samples", "influence_notes"
_TOLD = 10
"""Pairs in the command's answer."""


@dataclass(frozen=True, kw_only=True)
class InfluenceSource:
    """Where the command finds what it looks at; all of it belongs to the training thread."""

    model: nn.Module
    optimizers: Sequence[Optimizer]
    loss_fn: Callable[..., Any] | None = None
    """Of output and label, where there is no step of the user's."""
    step: Callable[[], UserStep | None] = lambda: None
    """The user's own step, of model and batch."""
    batches: Callable[[], Sequence[Any]] = tuple
    """The micro-batches of the last step, if they are still held; else the captured one is used."""
    grad_clip_norm: float | None = None

    def loss_of(self, model: nn.Module, batch: Any) -> torch.Tensor:
        """The loss of a batch as the training takes it."""
        return default_forward(model, self.loss_fn, batch, self.step()).loss


def register_influence(session: Session) -> Callable[[], None]:
    """Register the command for a session; return a function that withdraws it."""
    training = session.trainer
    parts = training.parts
    source = InfluenceSource(
        model=parts.model,
        optimizers=[parts.optimizer],
        loss_fn=parts.loss_fn,
        step=lambda: parts.training_step,
        batches=lambda: training.batches,
        grad_clip_norm=session.config.grad_clip_norm,
    )
    return offer_influence(session.controller, source)


def offer_influence(controller: DebugController, source: InfluenceSource) -> Callable[[], None]:
    """Register the command for any loop; return a function that withdraws it."""
    return controller.queue.register(INFLUENCE, lambda payload: _look(controller, source, payload))


def _look(
    controller: DebugController, source: InfluenceSource, payload: InfluencePayload
) -> dict[str, Any]:
    """Compute, show on the page, and tell the largest pairs; the training does not notice."""
    from midstep.influence.batch_influence import batch_influence

    captured = controller.get_batch()
    if captured is None or captured["step"] != controller.boundary.finished_steps - 1:
        raise ControlError(
            "no batch was kept of the step that the run stands at; take one step while this "
            "page is open or the run is paused, then ask again"
        )
    batches = list(source.batches())
    device = next(source.model.parameters()).device
    batch = move(join(batches) if batches else captured["batch"], device)
    with preserve_rng(), hooks_paused():
        found = batch_influence(
            source.model,
            source.optimizers,
            source.loss_of,
            batch,
            samples=payload.samples,
            grad_clip_norm=source.grad_clip_norm,
        )
    names = _names(captured["sample_ids"], found)
    _show(controller, found, names)
    _show_notes(controller, found)
    return _told(found, names, controller.boundary.finished_steps)


def _names(sample_ids: Any, found: BatchInfluence) -> list[str]:
    """Ids of the shown samples where they are known, else their places in the batch."""
    ids = list(sample_ids) if sample_ids is not None else []
    if len(ids) < found.samples:
        ids = list(range(found.samples))
    return [str(int(each)) for each in ids[: len(found.losses_S)]]


def _show(controller: DebugController, found: BatchInfluence, names: list[str]) -> None:
    controller.captures.add_step_data(
        MATRIX_KEY,
        {
            "matrix": found.contribution_SS.float().cpu(),
            "labels": names,
            "column_labels": [f"by {name}" for name in names],
        },
        panel=Panel(kind="matrix", title="Loss of row moved by column", scale="range"),
    )
    most = found.contribution_SS.abs().argmax(1).tolist()
    controller.captures.add_step_data(
        TABLE_KEY,
        {
            "sample": names,
            "loss": found.losses_S.float().cpu(),
            "change": found.change_S.float().cpu(),
            "by_itself": found.contribution_SS.diagonal().float().cpu(),
            "by_the_batch": (found.contribution_SS.sum(1) + found.others_S).float().cpu(),
            "by_momentum_and_decay": found.rest_S.float().cpu(),
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


def _show_notes(controller: DebugController, found: BatchInfluence) -> None:
    """What to know about the numbers, beside them."""
    if found.notes:
        text = "\n".join(f"{note[:1].upper()}{note[1:]}." for note in found.notes)
        panel = Panel(kind="text", title="About these influences")
        controller.captures.add_step_data(NOTES_KEY, text, panel=panel)


def _told(found: BatchInfluence, names: list[str], step: int) -> dict[str, Any]:
    """The answer: bounded, whatever the batch."""
    pairs = found.contribution_SS.clone()
    pairs.fill_diagonal_(0)
    order = pairs.abs().flatten().argsort(descending=True)[:_TOLD].tolist()
    places = [divmod(at, len(names)) for at in order]
    top = [
        {"sample": names[row], "by": names[column], "change": float(pairs[row, column])}
        for row, column in places
        if row != column
    ]
    change = found.change_S
    text = "; ".join(
        [
            f"the last step changed the loss of {len(names)} samples by {float(change.mean()):.3g} "
            f"on average, {int((change < 0).sum())} of them went down",
            *found.notes,
        ]
    )
    return {
        "step": step,
        "samples": len(names),
        "of": found.samples,
        "mean_change": float(change.mean()),
        "top": top,
        "notes": list(found.notes),
        "shown_as": [MATRIX_KEY, TABLE_KEY],
        "text": text,
    }
