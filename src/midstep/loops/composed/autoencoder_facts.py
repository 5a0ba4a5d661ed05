"""What a loop with an autoencoder records at the end of an epoch, for its plot families.

Measurements run on a few fixed validation samples, without any effect on the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from midstep.data.random_state import preserve_rng
from midstep.models.autoencoder import predicted_ids, reconstruction_errors
from midstep.session.fit.default_step import move
from midstep.session.fit.evaluation import evaluating

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.core.sample_spec import SampleSpec
    from midstep.data.sources.source_data import SampleDataset
    from midstep.models.autoencoder import Autoencoder, AutoencoderOutput
    from midstep.models.autoencoder.latent.codebook_usage import CodebookUsage
    from midstep.session import Session
    from midstep.session.fit.fit_loop import EpochRecord

SHOWN = 4
"""Samples whose reconstruction is recorded."""
MEASURED = 256
"""Samples on which the error of a denoiser is measured."""
RECORDS = 20
"""How often reconstructions are recorded in a run, so that its facts stay small."""
NOISE_LEVELS = 10
"""Bins of the share of signal, from 0 to 1."""


class AutoencoderFacts:
    """Adds `codebook`, `reconstructions` and `noise_levels` to the records of epochs.

    Args:
        model: the autoencoder in training; it is only read, apart from the counts of its codes.
        validation: the samples come from its beginning.
        spec: what a sample is.
        epochs: epochs in total.
    """

    def __init__(
        self, model: Autoencoder, validation: SampleDataset, spec: SampleSpec, *, epochs: int
    ) -> None:
        self._model, self._spec = model, spec
        self._epochs = epochs
        rows = list(range(min(MEASURED, len(validation))))
        self._samples: Mapping[str, Tensor] = validation.__getitems__(rows)
        self._codebook: dict[str, Any] | None = None

    def begin(self, session: Session) -> None:
        """Measure after each epoch of the session."""
        session.after_epoch(lambda _model: self._finish_codebook_epoch())
        session.on_epoch(lambda record: self._epoch_ended(session, record))

    def _finish_codebook_epoch(self) -> None:
        """Begin to count codes again; also in epochs that a rewind repeats."""
        usage: CodebookUsage | None = self._model.latent_space.usage
        if usage is not None:
            counts = usage.counts.tolist()
            self._codebook = {**asdict(usage.finish_epoch()), "counts": counts}

    def _epoch_ended(self, session: Session, record: EpochRecord) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._codebook is not None:
            fields["codebook"] = self._codebook
            session.run.log_finished(
                codebook_perplexity=self._codebook["perplexity"],
                codebook_usage=self._codebook["usage"],
            )
        if is_recorded(record.epoch, self._epochs):
            fields |= self._measure(session.trainer.device)
        return fields

    @torch.no_grad()
    def _measure(self, device: torch.device) -> dict[str, Any]:
        samples = move(self._samples, device)
        with preserve_rng(), evaluating(self._model):
            output = self._model(samples)
            # A denoiser estimates samples from noisy ones in training mode only.
            self._model.decoder.train()
            noisy = self._model(samples)
        fields: dict[str, Any] = {"reconstructions": self._reconstructions(samples, output)}
        if noisy.signal is not None:
            fields["noise_levels"] = self._noise_levels(samples, noisy, noisy.signal)
        return fields

    def _reconstructions(
        self, samples: Mapping[str, Tensor], output: AutoencoderOutput
    ) -> dict[str, Any]:
        """The first samples and what became of them, by the names of a batch."""
        rebuilt = dict(output.reconstruction)
        if "tokens_id" in rebuilt:
            rebuilt["tokens_id"] = predicted_ids(rebuilt)
        return shown_pairs(self._spec.kind, samples, rebuilt)

    def _noise_levels(
        self, samples: Mapping[str, Tensor], output: AutoencoderOutput, signal: Tensor
    ) -> list[dict[str, Any]]:
        """Mean reconstruction error by share of signal in the noisy input of the denoiser."""
        errors = reconstruction_errors(output.reconstruction, samples, self._spec)["loss"]
        bins = (signal * NOISE_LEVELS).long().clamp(0, NOISE_LEVELS - 1)
        chosen = [errors[bins == index] for index in range(NOISE_LEVELS)]
        return [
            {
                "signal_from": index / NOISE_LEVELS,
                "signal_to": (index + 1) / NOISE_LEVELS,
                "samples": len(each),
                "loss": float(each.mean()) if len(each) else None,
            }
            for index, each in enumerate(chosen)
        ]


def shown_pairs(
    kind: str, samples: Mapping[str, Tensor], rebuilt: Mapping[str, Tensor]
) -> dict[str, Any]:
    """The field `reconstructions` of an epoch's record: the first samples, and what they became."""
    return {
        "kind": kind,
        "samples": {name: _rounded(samples[name]) for name in rebuilt if name in samples},
        "reconstructions": {name: _rounded(value) for name, value in rebuilt.items()},
    }


def is_recorded(epoch: int, epochs: int) -> bool:
    """Whether reconstructions of this epoch are recorded: 20 to 40 times, and at the end."""
    return epoch % max(1, epochs // RECORDS) == 0 or epoch == epochs - 1


def _rounded(values: Tensor) -> Any:
    """The first rows with four significant digits, which is enough for a picture."""
    rows = values[:SHOWN].detach().cpu()
    if not rows.is_floating_point():
        return rows.tolist()
    flat = [float(f"{value:.4g}") for value in rows.float().flatten().tolist()]
    return {"shape": list(rows.shape), "values": flat}
