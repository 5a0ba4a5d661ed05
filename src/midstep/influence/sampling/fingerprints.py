"""A hash of a model's weights: two models with the same one compute the same."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

__all__ = ["weights_fingerprint"]

_SLICE_BYTES = 1 << 26


def weights_fingerprint(module: nn.Module) -> str:
    """Hash of names, types, shapes and bytes of all parameters and kept buffers.

    >>> layer = nn.Linear(2, 2)
    >>> weights_fingerprint(layer) == weights_fingerprint(layer.double())
    False
    """
    made = hashlib.blake2b(digest_size=16)
    state = module.state_dict()
    for name in sorted(state):
        value = state[name]
        if isinstance(value, Tensor):
            made.update(f"{name}\x1f{value.dtype}\x1f{list(value.shape)}\x1f".encode())
            _add_bytes(made, value)
    return made.hexdigest()


def _add_bytes(made: hashlib.blake2b, value: Tensor) -> None:
    """Piece by piece, so that a large tensor on a device never has a whole copy here."""
    if value.numel() == 0:
        return
    raw = value.detach().contiguous().flatten().view(torch.uint8)
    for start in range(0, len(raw), _SLICE_BYTES):
        made.update(raw[start : start + _SLICE_BYTES].cpu().numpy().data)
