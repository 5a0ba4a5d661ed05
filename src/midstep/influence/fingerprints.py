"""Fingerprints of kernels and batches: hashes of weights, optimizer state and tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


_REASONS = {
    "tokenizer": "their tokenizers differ",
    "weights": "their weights differ",
    "preconditioner": "their preconditioners are {0} and {1}",
    "optimizer_step": "their optimizers are at steps {0} and {1}",
    "betas": "their optimizers' betas are {0} and {1}",
    "moments": "their optimizers have different moments",
    "dtype": "they compute in {0} and {1}",
    "coverage": "other parameters count",
}


@dataclass(frozen=True, kw_only=True)
class BatchFingerprint:
    """The checkpoint that a batch was sampled and scored with."""

    weights: str
    """Hash of the model's weights."""
    tokenizer: str
    """Hash of the tokenizer."""

    def difference(self, other: BatchFingerprint) -> str | None:
        """The reason for the first field that differs, in words; None when they are equal."""
        for name, reason in _REASONS.items():
            mine, theirs = getattr(self, name, None), getattr(other, name, None)
            if mine != theirs:
                return reason.format(mine, theirs)
        return None


@dataclass(frozen=True, kw_only=True)
class KernelFingerprint(BatchFingerprint):
    """What a kernel was computed with. Only kernels with equal fingerprints may be mixed."""

    optimizer_step: int | None
    """Optimizer steps before this one; None without Adam."""
    betas: tuple[float, float] | None
    """The betas of Adam's first group; None without Adam."""
    moments: str | None
    """Hash of the sums of the moments; None without Adam."""
    dtype: str
    """Type in which the kernel is computed."""
    coverage: str
    """Hash of the names of the parameters that count."""
    preconditioner: str
    """Name of the preconditioner."""

    def check_same(self, other: KernelFingerprint, what: str) -> None:
        """Raise an error that names the difference, if there is one."""
        difference = self.difference(other)
        if difference is not None:
            raise ConfigError(
                f"{what} cannot be mixed: {difference}. A kernel holds for one step from one "
                "checkpoint; prepare both from the same one"
            )


def kernel_fingerprint(
    model: nn.Module,
    optimizer: Optimizer | None,
    *,
    weights: str,
    tokenizer: str,
    dtype: str | None,
    names: Iterable[str],
    preconditioner: str,
) -> KernelFingerprint:
    """The fingerprint of the optimizer's next step."""
    group = optimizer.param_groups[0] if optimizer is not None else {}
    first_state = next(iter(optimizer.state.values()), None) if optimizer is not None else None
    compute_dtype = dtype or str(next(model.parameters()).dtype).removeprefix("torch.")
    covered = "\x1f".join(sorted(names))
    return KernelFingerprint(
        weights=weights,
        optimizer_step=int(first_state["step"]) if first_state and "step" in first_state else None,
        betas=(float(group["betas"][0]), float(group["betas"][1])) if "betas" in group else None,
        moments=_hash_moments(optimizer),
        dtype=compute_dtype,
        coverage=hashlib.blake2b(covered.encode(), digest_size=16).hexdigest(),
        tokenizer=tokenizer,
        preconditioner=preconditioner,
    )


def _hash_moments(optimizer: Optimizer | None) -> str | None:
    """Hash of the sums of the moments, which is enough to distinguish two states of one model."""
    if optimizer is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for state in optimizer.state.values():
        for kind in ("exp_avg", "exp_avg_sq"):
            if kind in state:
                digest.update(repr(state[kind].double().sum().item()).encode())
    return digest.hexdigest()


_CHUNK_BYTES = 1 << 26  # 64 MiB


def hash_weights(module: nn.Module) -> str:
    """Hash of names, types, shapes and bytes of all parameters and kept buffers.

    >>> layer = nn.Linear(2, 2)
    >>> hash_weights(layer) == hash_weights(layer.double())
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    state = module.state_dict()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            digest.update(f"{name}\x1f{value.dtype}\x1f{list(value.shape)}\x1f".encode())
            _add_bytes(digest, value)
    return digest.hexdigest()


def _add_bytes(digest: hashlib.blake2b, value: Tensor) -> None:
    """Add a tensor in chunks, so that a large tensor on a GPU is never copied as a whole."""
    if value.numel() == 0:
        return
    raw = value.detach().contiguous().flatten().view(torch.uint8)
    for start in range(0, len(raw), _CHUNK_BYTES):
        digest.update(raw[start : start + _CHUNK_BYTES].cpu().numpy().data)
