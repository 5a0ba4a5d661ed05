"""The weights with which a stopped step is run again, and which weights are not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from midstep.explore.diagnosis.finite_counts import as_real, count_nonfinite

if TYPE_CHECKING:
    from midstep.session.state.snapshot import Snapshot


class SnapshotSource(Protocol):
    """Snapshots of this training from before a step."""

    def __call__(self, step: int) -> Iterable[Snapshot]:
        """The newest first; those on disk are read only when they are needed."""


@dataclass(frozen=True, kw_only=True)
class BrokenWeights:
    """Parameters and buffers that are not finite."""

    tensors: tuple[str, ...] = ()
    """Their names, in the order of the model."""
    of: int = 0
    """Parameters in all."""
    values: int = 0
    """Values that are not finite."""
    of_values: int = 0


@dataclass(frozen=True, kw_only=True)
class ChosenWeights:
    """Weights to run a step again with."""

    step: int
    """Finished steps when the training had them."""
    is_exact: bool
    """Whether the step to explain was made with them."""
    values: Mapping[int, Tensor] = field(default_factory=dict)
    """Saved tensors by `id` of the parameter or buffer; empty for the present weights."""
    saved: Mapping[str, Any] | None = None
    """Saved tensors by name; None for the present weights."""
    note: str | None = None
    """What must be said about them."""


def choose_weights(
    model: nn.Module, step: int, snapshots: SnapshotSource | None, broken_now: BrokenWeights
) -> tuple[ChosenWeights | None, str | None]:
    """The weights closest to those of step `step`, or the reason why there are none.

    Those from right before the step come first; the present ones if they are finite, because then
    the step changed them little or was skipped; else those of the newest snapshot that is finite.
    """
    earlier = iter(() if snapshots is None else snapshots(step))
    newest = next(iter(earlier), None)
    if newest is not None and newest.step == step - 1:
        return _of_snapshot(model, newest, is_exact=True), None
    if not broken_now.tensors:
        return ChosenWeights(step=step, is_exact=False, note="with the present weights"), None
    if newest is None:
        return None, (
            "No snapshot from before the step is held, so the modules were not run again: inputs, "
            "loss, gradients and parameters were checked"
        )
    while not _is_finite(newest) and (older := next(earlier, None)) is not None:
        newest = older
    return _of_snapshot(model, newest, is_exact=False), None


def _of_snapshot(model: nn.Module, snapshot: Snapshot, *, is_exact: bool) -> ChosenWeights:
    saved = model_state(snapshot)
    values = values_by_id(model, saved)
    missing = sum(id(parameter) not in values for parameter in model.parameters())
    words = f"with the weights of step {snapshot.step:,}"
    if missing:
        words += f", of which {missing:,} are not in the snapshot and keep their present values"
    note = None if is_exact and not missing else words
    return ChosenWeights(
        step=snapshot.step, is_exact=is_exact, values=values, saved=saved, note=note
    )


def model_state(snapshot: Snapshot) -> Mapping[str, Any]:
    """The tensors of the model in a snapshot, by name."""
    saved = snapshot.states.get("model")
    return saved if isinstance(saved, Mapping) else {}


def values_by_id(model: nn.Module, saved: Mapping[str, Any]) -> dict[int, Tensor]:
    """Saved tensors by the `id` of the parameter or buffer that has their name now."""
    live = model.state_dict(keep_vars=True)
    return {
        id(live[name]): value
        for name, value in saved.items()
        if isinstance(value, Tensor) and isinstance(live.get(name), Tensor)
    }


def _is_finite(snapshot: Snapshot) -> bool:
    values = (as_real(value) for value in model_state(snapshot).values())
    return all(bool(value.isfinite().all()) for value in values if value is not None)


def broken_weights(named: Iterable[tuple[str, Any]]) -> BrokenWeights:
    """Which parameters are not finite.

    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(layer.bias, float("nan"))
    >>> broken_weights(layer.named_parameters()).tensors
    ('bias',)
    """
    names, values, size, of = [], 0, 0, 0
    for name, value in named:
        counts = count_nonfinite(value)
        if counts is None:
            continue
        of, size = of + 1, size + counts.of
        if counts.bad:
            names.append(name)
            values += counts.bad
    return BrokenWeights(tensors=tuple(names), of=of, values=values, of_values=size)


def norm_of(tensors: Iterable[Any]) -> float | None:
    """The norm of several tensors together; None if there is none."""
    norms = [
        torch.linalg.vector_norm(value.float()).cpu()
        for tensor in tensors
        if (value := as_real(tensor)) is not None
    ]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else None
