"""Examines the features of an autoencoder now and then, so that a finished run shows them too.

Every condition is measured with the same rule on the same digits, also the one without any
competition: otherwise their figures could not stand beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.models.competitive import BCLConfig, health
from midstep.models.competitive.competition import Competition, compete, find_neighbours
from midstep.models.competitive.forces import FORCES, step_metrics

if TYPE_CHECKING:
    from midstep.models.autoencoder import LinearAutoencoder

__all__ = ["FeatureHealth", "HealthCheck", "standing"]

MATRIX_CELLS = 64
KEPT = ("win_rate", "feature_novelty", "grad_magnitude", "som_magnitude")


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureHealth:
    """What one examination found."""

    step: int
    """Finished steps."""
    samples: int
    """Digits it was measured on; the magnitudes are sums over these."""
    metrics: dict[str, float]
    """l1, psnr, weight_cosine, effective_rank, dead, winners, unreachable, gini, velocity."""
    features: dict[str, Tensor]
    """Per feature: win_rate, feature_novelty, grad_magnitude, som_magnitude, velocity."""
    cosines: Tensor
    """Of all pairs of features, [M, M]; means over blocks when there are more than 64."""

    def as_fact(self) -> dict[str, Any]:
        """The fields of its record; six digits are enough for a picture."""
        return {
            "kind": "feature_health",
            "step": self.step,
            "split": "val",
            "samples": self.samples,
            "metrics": self.metrics,
            "features": {
                name: [float(f"{value:.6g}") for value in column.tolist()]
                for name, column in self.features.items()
            },
            "weight_cosines": _upper(self.cosines),
        }


class HealthCheck:
    """Examines one model, each time against the weights of the time before.

    Args:
        model: the autoencoder in training; it is only read.
        images: what it is examined on, [B, …].
        config: how the features compete.
        gated: whether that competition acts on the training; without it every gradient
            passes whole and nothing pulls.
    """

    def __init__(
        self, model: LinearAutoencoder, images: Tensor, config: BCLConfig, *, gated: bool
    ) -> None:
        self._model, self._images = model, images
        self._config, self._gated = config, gated
        self._before, self._at = model.encoder.weight.detach().clone(), 0
        self.found: FeatureHealth | None = None
        """The last examination."""

    def state_dict(self) -> dict[str, Any]:
        """What the next examination is made against, and the last one."""
        found = None if self.found is None else dict(vars(self.found))
        return {"before": self._before, "at": self._at, "found": found}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self._before, self._at = state["before"].clone(), state["at"]
        self.found = None if state["found"] is None else FeatureHealth(**state["found"])

    @torch.no_grad()
    def examine(self, step: int) -> FeatureHealth:
        """Measure the model as it stands after `step` steps; once for each step."""
        if self.found is not None and self.found.step == step:
            return self.found
        weight = self._model.encoder.weight.detach()
        features = self._forces(weight)
        features["velocity"] = health.velocity(self._before, weight, step - self._at)
        self._before, self._at = weight.clone(), step
        self.found = FeatureHealth(
            step=step,
            samples=len(self._images),
            metrics={**self._reconstruction(), **_summary(weight, features)},
            features=features,
            cosines=health.cosine_blocks(weight, MATRIX_CELLS),
        )
        return self.found

    def _forces(self, weight: Tensor) -> dict[str, Tensor]:
        inputs = self._images.flatten(1)
        activations = torch.nn.functional.linear(inputs, weight, self._model.encoder.bias)
        won = _competition(weight, activations, self._config)
        forces = FORCES[self._config.variant](won, inputs, weight, self._config)
        metrics = step_metrics(won, forces)
        if not self._gated:
            metrics["grad_magnitude"] = torch.full_like(won.win_rate_D, len(inputs))
            metrics["som_magnitude"] = torch.zeros_like(won.win_rate_D)
        return {name: metrics[name] for name in KEPT}

    def _reconstruction(self) -> dict[str, float]:
        pixels, images = self._model(self._images), self._images.flatten(1)
        return {"l1": health.l1(pixels, images), "psnr": health.psnr(pixels, images)}


def _upper(cosines: Tensor) -> list[list[float]]:
    """Row i holds the cosines with i, i + 1, …; three digits are enough for a picture."""
    return [
        [round(value, 3) for value in row[place:]] for place, row in enumerate(cosines.tolist())
    ]


@torch.no_grad()
def standing(weight: Tensor, activations: Tensor, config: BCLConfig) -> dict[str, Tensor]:
    """How features would do in a competition that does not act: win_rate, feature_novelty.

    Args:
        weight: one row per feature, [D, I].
        activations: of a batch, before the ReLU, [B, D].
        config: how they would compete.
    """
    won = _competition(weight, activations, config)
    return {"win_rate": won.win_rate_D, "feature_novelty": won.feature_novelty_D}


def _competition(weight: Tensor, activations: Tensor, config: BCLConfig) -> Competition:
    return compete(activations, find_neighbours(weight, config.neighborhood_k), config.temperature)


def _summary(weight: Tensor, features: dict[str, Tensor]) -> dict[str, float]:
    win_rate = features["win_rate"]
    return {
        "weight_cosine": health.mean_pairwise_cosine(weight),
        "effective_rank": health.effective_rank(weight),
        "dead": health.dead(win_rate),
        "winners": health.winners(win_rate),
        "unreachable": health.unreachable(features["grad_magnitude"], features["som_magnitude"]),
        "gini": health.gini(win_rate),
        "velocity": float(features["velocity"].mean()),
    }
