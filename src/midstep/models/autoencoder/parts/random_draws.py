"""Random numbers on the device of a tensor, from a generator that may be on another one."""

from __future__ import annotations

import torch


def normal_like(values: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Standard normal numbers in the shape of `values`, in single precision.

    Under autocast `values` may be bfloat16, in which noise would be coarse.
    """
    device = values.device if generator is None else generator.device
    drawn = torch.randn(values.shape, generator=generator, device=device)
    return drawn.to(values.device)


def uniform_like(values: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """One number from 0 to 1, without 1, for each sample of `values` [B, …]."""
    device = values.device if generator is None else generator.device
    return torch.rand(len(values), generator=generator, device=device).to(values.device)
