"""By what a resume knows that it continues the same training."""

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

__all__ = ["dataset_fingerprint", "differences", "fingerprints", "hash_value"]

ITEMS = 32
"""Items of a dataset that are looked at."""
MOST_NAMED = 3
"""Differences inside one field that are spelled out."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprints(
    *,
    model: Any = None,
    optimizer: Any = None,
    dataset: Any = None,
    batch_size: int | None = None,
    seed: int | None = None,
    transform: Any = None,
    read: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """What must be the same when a training is resumed.

    Args:
        model: names, shapes and types of its parameters and buffers.
        optimizer: its class, its defaults and its groups.
        dataset: see `dataset_fingerprint`.
        batch_size: of the training loader.
        seed: of the order.
        transform: by its `repr`; the dataset's own when left out.
        read: reads an item of the dataset, where that is not `dataset[index]`.

    >>> fingerprints(batch_size=8, seed=1)["batch_size"]
    8
    """
    own = transform if transform is not None else _transform_of(dataset)
    return {
        "model": None if model is None else _model(model),
        "optimizer": None if optimizer is None else _optimizer(optimizer),
        "dataset": None if dataset is None else dataset_fingerprint(dataset, read=read),
        "batch_size": batch_size,
        "seed": seed,
        "transform": None if own is None else _text(own),
    }


def _model(model: Any) -> dict[str, str]:
    return {
        name: f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
        for name, value in model.state_dict().items()
        if isinstance(value, torch.Tensor)
    }


def _optimizer(optimizer: Any) -> dict[str, Any]:
    return {
        "class": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
        "defaults": {name: _text(value) for name, value in optimizer.defaults.items()},
        "groups": [len(group["params"]) for group in optimizer.param_groups],
    }


def _text(value: Any) -> str:
    """Its `repr` without addresses, which differ from process to process."""
    return _ADDRESS.sub("", repr(value))


def _transform_of(dataset: Any) -> Any:
    """The transform of a dataset, also of the one behind subsets."""
    while dataset is not None and not hasattr(dataset, "transform"):
        dataset = getattr(dataset, "dataset", None)
    return getattr(dataset, "transform", None)


# -- datasets ----------------------------------------------------------------------------------


def dataset_fingerprint(
    dataset: Any, *, read: Callable[[int], Any] | None = None
) -> dict[str, Any]:
    """`dataset.fingerprint()` if it has one, else its length and a hash of 32 of its items.

    Items are read with every generator seeded by their number, and the generators are put back,
    so that a random transform gives the same and nothing else notices.
    """
    own = getattr(dataset, "fingerprint", None)
    if callable(own):
        return {"own": _text(own())}
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        return {"class": type(dataset).__qualname__}  # a stream: reading it would use it up
    length = len(dataset)
    with preserve_rng():
        items = [_item(read or dataset.__getitem__, index) for index in _spread(length)]
    return {"length": length, "items": hash_value(items)}


def _spread(length: int) -> list[int]:
    """At most 32 positions from the first to the last."""
    count = min(ITEMS, length)
    return sorted({index * (length - 1) // max(1, count - 1) for index in range(count)})


def _item(read: Callable[[int], Any], index: int) -> Any:
    key = stream_key(0, "fingerprint", index)
    random.seed(key)
    np.random.seed(key % 2**32)
    torch.default_generator.manual_seed(key)
    return hash_value(read(index))


def hash_value(value: Any) -> str:
    """A hash of what a value holds: tensors, arrays, pictures, containers, numbers, text.

    >>> hash_value([1, "a"]) == hash_value([1, "a"]), hash_value([1]) == hash_value((1,))
    (True, False)
    """
    hashed = hashlib.blake2b(digest_size=16)
    _feed(hashed.update, value)
    return hashed.hexdigest()


def _feed(update: Callable[[bytes], None], value: Any) -> None:
    """Every value says its type and its size before its content, so that no two run together."""

    def say(*parts: Any) -> None:
        update(("\x1f".join([type(value).__qualname__, *map(str, parts)]) + "\x1e").encode())

    if isinstance(value, torch.Tensor):
        plain = value.detach().cpu().resolve_conj().resolve_neg()
        say(plain.dtype, tuple(plain.shape))
        update(bytes(raw_bytes(plain)))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        say(value.dtype.str, value.shape)
        update(value.tobytes())
    elif isinstance(value, bytes | bytearray):
        say(len(value))
        update(bytes(value))
    elif isinstance(value, Mapping):
        say(len(value))
        for key, item in value.items():
            _feed(update, key)
            _feed(update, item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        say(len(value))
        for item in value:
            _feed(update, item)
    elif is_dataclass(value):
        say(len(fields(value)))
        for name in (field.name for field in fields(value)):
            _feed(update, getattr(value, name))
    elif hasattr(value, "tobytes") and hasattr(value, "size"):  # a picture of Pillow
        say(getattr(value, "mode", ""), value.size)
        update(value.tobytes())
    else:
        text = _text(value).encode("utf-8", "surrogatepass")
        say(len(text))
        update(text)


# -- comparing ---------------------------------------------------------------------------------


def differences(saved: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, str]:
    """The fields in which two fingerprints differ, each with its change in words.

    A field that one of them does not know is not compared.

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
    names = [n for n in {**old, **new} if old.get(n, _ABSENT) != new.get(n, _ABSENT)]
    told = [_change(f"{field}.{n}", *_both(old, new, n)) for n in names[:MOST_NAMED]]
    more = f", and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(told) + more


class _Absent:
    """What a fingerprint has where it has nothing."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _both(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> tuple[Any, Any]:
    return old.get(name, _ABSENT), new.get(name, _ABSENT)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
