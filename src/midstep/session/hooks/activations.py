"""Hooks on the outputs of modules: their statistics, and dead units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from midstep.control.capture.deferred_columns import DeferredColumns
from midstep.control.panels import Field, Level, Panel, Sort, Status
from midstep.session.hooks.hook import Hook
from midstep.session.hooks.hook_measures import (
    alive_units,
    can_be_hooked,
    first_tensor,
    leaf_modules,
    moments,
    saturated_share,
)
from midstep.session.metrics.activation_zeros import watched_modules
from midstep.session.metrics.tensor_norms import stacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import nn


class ActivationStatistics(Hook):
    """A table: per module the mean, standard deviation, range and share of zeros of its output.

    Modules without children are measured. `saturated` is known for sigmoid, tanh and similar
    modules. With several passes in a step (gradient accumulation) all have the same weight.

    Args:
        layers: only modules whose name contains this.

    >>> ActivationStatistics().panel.kind
    'table'
    """

    key = "activations"
    panel = Panel(
        kind="table",
        title="Activations",
        label="name",
        fields={
            "mean": Field(label="Mean", precision=4),
            "std": Field(label="Std", precision=4),
            "zero": Field(label="Zero", precision=3),
            "saturated": Field(label="Saturated", precision=3),
            "low": Field(label="Min", precision=4),
            "high": Field(label="Max", precision=4),
        },
        status=Status(
            field="std",
            levels=(
                Level(below=1e-6, word="constant", tone="bad"),
                Level(above=1e3, word="large", tone="warn"),
            ),
            otherwise=Level(word="varies", tone="good"),
        ),
    )

    def __init__(self, layers: str = "") -> None:
        self._layers = layers
        self._kinds: dict[str, str] = {}
        self._seen: dict[str, list[torch.Tensor]] = {}

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
        """Every module without children."""
        return leaf_modules(model, self._layers)

    def begin_step(self, model: nn.Module) -> None:
        """Drop the data of the last step."""
        self._seen = {}

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """Measure one output. Does not wait for the device."""
        tensor = first_tensor(output)
        if tensor is None:
            return
        share = saturated_share(module, tensor)
        flat = tensor.new_full((), torch.nan) if share is None else share
        self._kinds[name] = type(module).__name__
        numbers = torch.cat([moments(tensor), flat.float().reshape(1)])
        self._seen.setdefault(name, []).append(numbers)

    def after_step(self, model: nn.Module) -> Mapping[str, Any] | None:
        """The table. The numbers stay on the device; a reader makes the columns from their copy."""
        seen, self._seen = self._seen, {}
        if not seen:
            return None
        device = next(iter(seen.values()))[0].device
        rows = torch.stack([_joined(torch.stack(each)).to(device) for each in seen.values()])
        kinds = [self._kinds[name] for name in seen]
        return DeferredColumns(_activation_columns, names=list(seen), kinds=kinds, rows=rows)


def _activation_columns(names: list[str], kinds: list[str], rows: torch.Tensor) -> dict[str, Any]:
    """The columns of N modules from their numbers, [N, 6]."""
    mean, square, zero, low, high, saturated = rows.cpu().unbind(dim=1)
    return {
        "name": names,
        "kind": kinds,
        "mean": mean,
        "std": (square - mean.square()).clamp_min(0).sqrt(),
        "zero": zero,
        "saturated": saturated,
        "low": low,
        "high": high,
    }


def _joined(calls: torch.Tensor) -> torch.Tensor:
    """The numbers of C passes, [C, 6], combined to those of one: [6]."""
    joined = calls.mean(dim=0)
    joined[3], joined[4] = calls[:, 3].min(), calls[:, 4].max()
    return joined


class DeadUnits(Hook):
    """A table: per activation function the number of dead units.

    A unit is dead if it was zero for every sample of the last measured steps. Units are the
    channels of images [B, U, …], else the last dimension. Functions without a module
    (`torch.relu`) are not seen.

    Args:
        steps: measured steps in a row in which a dead unit was zero.

    >>> DeadUnits(steps=4).key
    'dead units'
    """

    key = "dead units"
    panel = Panel(
        kind="table",
        title="Dead units",
        label="name",
        fields={"dead_fraction": Field(label="Dead", precision=3)},
        status=Status(
            field="dead_fraction",
            levels=(
                Level(above=0.5, word="dying", tone="bad"),
                Level(above=0.1, word="thinning", tone="warn"),
            ),
            otherwise=Level(word="alive", tone="good"),
        ),
        sort=Sort(field="dead_fraction"),
    )

    def __init__(self, steps: int = 8) -> None:
        self._steps = steps
        self._now: dict[str, torch.Tensor] = {}
        self._quiet: dict[str, torch.Tensor] = {}
        """Per unit: measured steps since it was last not zero, [U]."""

    def modules(self, model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
        """The activation functions."""
        return watched_modules(model).items() if can_be_hooked(model) else ()

    def begin_step(self, model: nn.Module) -> None:
        """Drop the masks of the last step; the counts of quiet steps are kept."""
        self._now = {}

    def forward(
        self,
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        output: Any,
    ) -> None:
        """Note which units were not zero in this pass or an earlier one of the step."""
        tensor = first_tensor(output)
        if tensor is None:
            return
        alive, before = alive_units(tensor), self._now.get(name)
        same = before is not None and before.shape == alive.shape
        self._now[name] = alive | before if same and before is not None else alive

    def after_step(self, model: nn.Module) -> Mapping[str, Any] | None:
        """The table. The counts stay on the device; a reader makes the columns from their copy."""
        if not self._now:
            return None
        for name, alive in self._now.items():
            quiet = self._quiet.get(name)
            if quiet is None or quiet.shape != alive.shape:
                quiet = torch.zeros_like(alive, dtype=torch.int32)
            self._quiet[name] = torch.where(alive, 0, quiet + 1)
        dead = stacked([(self._quiet[name] >= self._steps).sum() for name in self._now])
        units = [alive.numel() for alive in self._now.values()]
        return DeferredColumns(_dead_columns, names=list(self._now), units=units, dead=dead)


def _dead_columns(names: list[str], units: list[int], dead: torch.Tensor) -> dict[str, Any]:
    counts = dead.tolist()
    return {
        "name": names,
        "units": units,
        "dead": counts,
        "dead_fraction": [part / whole for part, whole in zip(counts, units, strict=True)],
    }
