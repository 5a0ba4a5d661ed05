"""Measures the features of an autoencoder every few hundred steps, and records them as facts.

Every condition is measured with the same rule on the same digits, also the one without a
competition. Otherwise their numbers could not be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from midstep.models.competitive import BCLConfig, feature_measures
from midstep.models.competitive.competition import Competition, compete, find_neighbours
from midstep.models.competitive.forces import FORCES, step_metrics

if TYPE_CHECKING:
    from midstep.models.linear_autoencoder import LinearAutoencoder

MATRIX_CELLS = 64
FEATURE_COLUMNS = ("win_rate", "feature_novelty", "grad_magnitude", "som_magnitude")


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureHealth:
    """One measurement of all features."""

    step: int
    """Finished steps."""
    samples: int
    """Digits of the measurement; magnitudes are sums over them."""
    metrics: dict[str, float]
    """l1, psnr, weight_cosine, effective_rank, dead, winners, unreachable, gini, velocity."""
    features: dict[str, Tensor]
    """Per feature: win_rate, feature_novelty, grad_magnitude, som_magnitude, velocity."""
    cosines: Tensor
    """Cosines of all pairs of features, [M, M]; means over blocks for more than 64 features."""

    def as_fact(self) -> dict[str, Any]:
        """The fields of its fact. Six digits are enough for a plot."""
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
            "weight_cosines": _upper_triangle(self.cosines),
        }


class FeatureHealthMonitor:
    """Measures one model; velocity is relative to the weights of the measurement before.

    Args:
        model: the autoencoder in training; it is only read.
        images: the images of the measurement, [B, …].
        config: how the features compete.
        gated: whether the competition acts on the training. Without it gradients pass unmasked, and
            nothing is pulled.
    """

    def __init__(
        self, model: LinearAutoencoder, images: Tensor, config: BCLConfig, *, gated: bool
    ) -> None:
        self._model, self._images = model, images
        self._config, self._gated = config, gated
        self._previous_weight, self._previous_step = model.encoder.weight.detach().clone(), 0
        self.last: FeatureHealth | None = None
        """The last measurement."""

    def state_dict(self) -> dict[str, Any]:
        """The weights for the next velocity, and the last measurement."""
        last = None if self.last is None else dict(vars(self.last))
        return {"before": self._previous_weight, "at": self._previous_step, "found": last}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of `state_dict`."""
        self._previous_weight, self._previous_step = state["before"].clone(), state["at"]
        self.last = None if state["found"] is None else FeatureHealth(**state["found"])

    @torch.no_grad()
    def examine(self, step: int) -> FeatureHealth:
        """Measure the model after `step` steps.

        A second call for the same step measures nothing.
        """
        if self.last is not None and self.last.step == step:
            return self.last
        weight = self._model.encoder.weight.detach()
        features = self._forces(weight)
        features["velocity"] = feature_measures.velocity(
            self._previous_weight, weight, step - self._previous_step
        )
        self._previous_weight, self._previous_step = weight.clone(), step
        self.last = FeatureHealth(
            step=step,
            samples=len(self._images),
            metrics={**self._reconstruction(), **_summarise(weight, features)},
            features=features,
            cosines=feature_measures.cosine_blocks(weight, MATRIX_CELLS),
        )
        return self.last

    def _forces(self, weight: Tensor) -> dict[str, Tensor]:
        inputs = self._images.flatten(1)
        activations = torch.nn.functional.linear(inputs, weight, self._model.encoder.bias)
        competition = _competition(weight, activations, self._config)
        forces = FORCES[self._config.variant](competition, inputs, weight, self._config)
        metrics = step_metrics(competition, forces)
        # Without a mask every sample passes with weight 1, so the sum is the number of samples.
        if not self._gated:
            metrics["grad_magnitude"] = torch.full_like(competition.win_rate_D, len(inputs))
            metrics["som_magnitude"] = torch.zeros_like(competition.win_rate_D)
        return {name: metrics[name] for name in FEATURE_COLUMNS}

    def _reconstruction(self) -> dict[str, float]:
        pixels, images = self._model(self._images), self._images.flatten(1)
        return {
            "l1": feature_measures.l1(pixels, images),
            "psnr": feature_measures.psnr(pixels, images),
        }


def _upper_triangle(cosines: Tensor) -> list[list[float]]:
    """Row i has the cosines with i, i + 1, …; three digits are enough for a plot."""
    return [
        [round(value, 3) for value in row[index:]] for index, row in enumerate(cosines.tolist())
    ]


@torch.no_grad()
def competition_metrics(
    weight: Tensor, activations: Tensor, config: BCLConfig
) -> dict[str, Tensor]:
    """Win rate and novelty of features in a competition without effect on the training.

    Args:
        weight: one row per feature, [D, I].
        activations: of a batch, before the ReLU, [B, D].
        config: how the features would compete.
    """
    competition = _competition(weight, activations, config)
    return {"win_rate": competition.win_rate_D, "feature_novelty": competition.feature_novelty_D}


def _competition(weight: Tensor, activations: Tensor, config: BCLConfig) -> Competition:
    return compete(activations, find_neighbours(weight, config.neighborhood_k), config.temperature)


def _summarise(weight: Tensor, features: dict[str, Tensor]) -> dict[str, float]:
    win_rate = features["win_rate"]
    return {
        "weight_cosine": feature_measures.mean_pairwise_cosine(weight),
        "effective_rank": feature_measures.effective_rank(weight),
        "dead": feature_measures.dead(win_rate),
        "winners": feature_measures.winners(win_rate),
        "unreachable": feature_measures.unreachable(
            features["grad_magnitude"], features["som_magnitude"]
        ),
        "gini": feature_measures.gini(win_rate),
        "velocity": float(features["velocity"].mean()),
    }
