"""Fingerprints: what must be equal for a resume to continue the same training."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from midstep.core.random_streams import stream_key
from midstep.data.random_state import preserve_rng
from midstep.session.checkpoint.tensor_file import raw_bytes
from midstep.session.late_parameters import is_uninitialized

ITEMS = 32
"""Items of a dataset that are hashed."""
MOST_NAMED = 3
"""Differences inside one field that an error message names."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprints(
    *,
    model: Any = None,
    optimizer: Any = None,
    dataset: Any = None,
    batch_size: int | None = None,
    seed: int | None = None,
    transform: Any = None,
) -> dict[str, Any]:
    """What must be equal when a training is resumed.

    Args:
        model: names, shapes and types of its parameters and buffers.
        optimizer: its class, its defaults and its groups.
        dataset: see `dataset_fingerprint`.
        batch_size: of the training loader.
        seed: of the order.
        transform: its `repr` is compared; that of the dataset if left out.

    >>> fingerprints(batch_size=8, seed=1)["batch_size"]
    8
    """
    transform = _transform_of(dataset) if transform is None else transform
    return {
        "model": None if model is None else _model(model),
        "optimizer": None if optimizer is None else _optimizer(optimizer),
        "dataset": None if dataset is None else dataset_fingerprint(dataset),
        "batch_size": batch_size,
        "seed": seed,
        "transform": None if transform is None else _text(transform),
    }


def _model(model: Any) -> dict[str, str]:
    return {
        name: _layout(value)
        for name, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def _layout(tensor: torch.Tensor) -> str:
    if is_uninitialized(tensor):
        return "not initialised"
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _optimizer(optimizer: Any) -> dict[str, Any]:
    return {
        "class": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
        "defaults": {name: _text(value) for name, value in optimizer.defaults.items()},
        "groups": [len(group["params"]) for group in optimizer.param_groups],
    }


def _text(value: Any) -> str:
    """The `repr` of a value without memory addresses, which differ between processes."""
    return _ADDRESS.sub("", repr(value))


def _transform_of(dataset: Any) -> Any:
    """The transform of a dataset, or of the dataset inside a `Subset`."""
    while dataset is not None and not hasattr(dataset, "transform"):
        dataset = getattr(dataset, "dataset", None)
    return getattr(dataset, "transform", None)


# -- datasets ----------------------------------------------------------------------------------


def dataset_fingerprint(
    dataset: Any, *, read: Callable[[int], Any] | None = None
) -> dict[str, Any]:
    """`dataset.fingerprint()` if it has one, else its length and a hash of 32 of its items.

    Every generator is seeded with the number of the item, so that a random transform gives the same
    item again. The generators are restored afterwards: a fingerprint must not change the training.

    Args:
        dataset: the user's dataset.
        read: reads an item; `dataset[index]` if left out.
    """
    fingerprint = getattr(dataset, "fingerprint", None)
    if callable(fingerprint):
        return {"own": _text(fingerprint())}
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        return {"class": type(dataset).__qualname__}  # a stream: reading it would use it up
    length = len(dataset)
    with preserve_rng():
        items = [_item(read or dataset.__getitem__, index) for index in _spread(length)]
    return {"length": length, "items": hash_value(items)}


def _spread(length: int) -> list[int]:
    """At most 32 indices, evenly from the first to the last."""
    count = min(ITEMS, length)
    return sorted({index * (length - 1) // max(1, count - 1) for index in range(count)})


def _item(read: Callable[[int], Any], index: int) -> Any:
    key = stream_key(0, "fingerprint", index)
    random.seed(key)
    np.random.seed(key % 2**32)  # NumPy takes 32 bits
    torch.default_generator.manual_seed(key)
    return hash_value(read(index))


def hash_value(value: Any) -> str:
    """A hash of the content of a value: tensors, arrays, pictures, containers, numbers, text.

    >>> hash_value([1, "a"]) == hash_value([1, "a"]), hash_value([1]) == hash_value((1,))
    (True, False)
    """
    hashed = hashlib.blake2b(digest_size=16)
    _feed(hashed.update, value)
    return hashed.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    """Hash a value. Its type and size go first, so that ["ab"] and ["a", "b"] differ."""

    def add_header(*parts: Any) -> None:
        update(("\x1f".join([type(value).__qualname__, *map(str, parts)]) + "\x1e").encode())

    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().resolve_conj().resolve_neg()  # lazy bits are not in the data
        add_header(plain.dtype, tuple(plain.shape))
        update(bytes(raw_bytes(plain)))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        add_header(value.dtype.str, value.shape)
        update(value.tobytes())
    elif isinstance(value, bytes | bytearray):
        add_header(len(value))
        update(bytes(value))
    elif isinstance(value, Mapping):
        add_header(len(value))
        for key, item in value.items():
            _feed(update, key)
            _feed(update, item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        add_header(len(value))
        for item in value:
            _feed(update, item)
    elif is_dataclass(value):
        add_header(len(fields(value)))
        for name in (field.name for field in fields(value)):
            _feed(update, getattr(value, name))
    elif hasattr(value, "tobytes") and hasattr(value, "size"):  # a picture of Pillow
        add_header(getattr(value, "mode", ""), value.size)
        update(value.tobytes())
    else:
        text = _text(value).encode("utf-8", "surrogatepass")
        add_header(len(text))
        update(text)


# -- comparing ---------------------------------------------------------------------------------


def differences(saved: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, str]:
    """The fields in which two fingerprints differ, each with its change in words.

    A field that one of them lacks is not compared.

    >>> differences({"seed": 1}, {"seed": 2})
    {'seed': 'seed was 1, is 2'}
    """
    return {
        field: _change(field, saved[field], current[field])
        for field in saved
        if field in current
        and None not in (saved[field], current[field])
        and saved[field] != current[field]
    }


def _change(field: str, old: Any, new: Any) -> str:
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return f"{field} was {_short(old)}, is {_short(new)}"
    pairs = {name: (old.get(name, "absent"), new.get(name, "absent")) for name in {**old, **new}}
    changed = [name for name, (before, after) in pairs.items() if before != after]
    changes = [_change(f"{field}.{name}", *pairs[name]) for name in changed[:MOST_NAMED]]
    more = f", and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
    return ", ".join(changes) + more


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
