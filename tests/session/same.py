"""Whether two states are the same to the last bit, types and sharing included."""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from typing import Any

import numpy as np
import torch


def assert_same(found: Any, wanted: Any, path: str = "state") -> None:
    """Equal in type, content and order; tensors bit for bit, with their strides."""
    assert type(found) is type(wanted), f"{path}: {type(found)} is not {type(wanted)}"
    if isinstance(wanted, torch.Tensor):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), path
        assert bits(found) == bits(wanted), f"{path}: {found} is not {wanted}"
    elif isinstance(wanted, np.ndarray | np.generic):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), path
        assert found.tobytes() == wanted.tobytes(), path
    elif isinstance(wanted, dict):
        assert len(found) == len(wanted), path
        for (key, item), (wanted_key, wanted_item) in zip(
            found.items(), wanted.items(), strict=True
        ):
            assert_same(key, wanted_key, f"{path} key")
            assert_same(item, wanted_item, f"{path}.{key}")
        if isinstance(wanted, defaultdict):
            assert found.default_factory is wanted.default_factory, path
        assert_same(getattr(found, "_metadata", None), getattr(wanted, "_metadata", None))
    elif isinstance(wanted, list | tuple | deque):
        if isinstance(wanted, deque):
            assert found.maxlen == wanted.maxlen, path
        assert len(found) == len(wanted), path
        for index, pair in enumerate(zip(found, wanted, strict=True)):
            assert_same(*pair, f"{path}.{index}")
    elif isinstance(wanted, set | frozenset):
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), path
    elif isinstance(wanted, float):
        assert struct.pack("<d", found) == struct.pack("<d", wanted), path
    else:
        assert found == wanted, path


def bits(tensor: torch.Tensor) -> bytes:
    """The bytes of a tensor in the order of its elements."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
