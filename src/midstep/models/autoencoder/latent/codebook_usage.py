"""`CodebookUsage`: how often each code was used in an epoch, from summed counts.

A mean of the perplexities of batches is not the perplexity of an epoch: a batch of 128 cannot use
more than 128 codes. Counts add up over batches and over ranks, so the result depends on neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class CodebookStatistics:
    """The use of a codebook in an epoch. With several codebooks: means over them."""

    perplexity: float
    """exp of the entropy of the codes: 1 for one code, the codebook size for equal use."""
    usage: float
    """Share of the codes that were used at least once."""
    dead_codes: int
    """Codes of all codebooks that were not used."""
    oldest_dead_epochs: int
    """Finished epochs, this one included, since the longest unused code was used."""


class CodebookUsage(nn.Module):
    """Counts of codes in buffers, so that they are saved, resumed and rewound with a model.

    Args:
        codebook_size: codes of a codebook.
        codebooks: number of codebooks.

    >>> usage = CodebookUsage(4)
    >>> usage.add_codes(torch.tensor([0, 1, 1, 0]))
    >>> usage.statistics().perplexity, usage.statistics().usage
    (2.0, 0.5)
    """

    counts: torch.Tensor
    unused_epochs: torch.Tensor

    def __init__(self, codebook_size: int, codebooks: int = 1) -> None:
        super().__init__()
        zeros = torch.zeros(codebooks, codebook_size, dtype=torch.int64)
        self.register_buffer("counts", zeros)
        self.register_buffer("unused_epochs", zeros.clone())

    @torch.no_grad()
    def add_codes(self, codes: torch.Tensor) -> None:
        """Count codes of any shape; with several codebooks the last dimension runs over them."""
        per_codebook = codes.reshape(-1, len(self.counts)).unbind(1)
        size = self.counts.shape[1]
        self.add_counts(
            torch.stack([torch.bincount(each, minlength=size) for each in per_codebook])
        )

    @torch.no_grad()
    def add_counts(self, counts: torch.Tensor) -> None:
        """Add counts [codebooks, codebook_size], for example those of another rank."""
        self.counts += counts.to(self.counts.dtype)

    def code_age_epochs(self) -> torch.Tensor:
        """Epochs since each code was used [codebooks, codebook_size]; 0 if used in this one."""
        return torch.where(self.counts > 0, 0, self.unused_epochs + 1)

    def statistics(self) -> CodebookStatistics:
        """The statistics of the epoch so far."""
        counts = self.counts.double()
        shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
        entropy = -torch.special.xlogy(shares, shares).sum(1)
        is_used = self.counts > 0
        return CodebookStatistics(
            perplexity=float(entropy.exp().mean()),
            usage=float(is_used.double().mean()),
            dead_codes=int((~is_used).sum()),
            oldest_dead_epochs=int(self.code_age_epochs().max()),
        )

    def finish_epoch(self) -> CodebookStatistics:
        """The statistics of the epoch; counting begins again, ages of unused codes continue."""
        statistics = self.statistics()
        self.unused_epochs.copy_(self.code_age_epochs())
        self.counts.zero_()
        return statistics
