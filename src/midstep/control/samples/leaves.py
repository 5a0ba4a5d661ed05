"""The parts of a batch that have one entry for each sample: tensors, arrays, lists of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from midstep.control.samples.layout import COLOURS
from midstep.control.samples.tensor_facts import dtype_name, is_tensor

MAX_LEAVES = 128
"""Further parts are ignored: a list of many lists is not a batch of named parts."""
MAX_DEPTH = 4
LEAST_IMAGES = 2
"""A list of so few images could be an input and a target without an axis of colours."""


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One part of a batch."""

    name: str
    """Its keys with dots between them; the position of an element without a key."""
    value: Any
    """A tensor or an array, or a list of texts, of numbers, or of images."""
    top: int
    """Position in the batch of the element that it is, or is in."""
    has_key: bool
    """Whether a mapping, or a named tuple, named it."""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor or an array, not a list."""
        return is_tensor(self.value)

    @property
    def is_text(self) -> bool:
        """Whether it is a list of texts."""
        return not self.is_tensor and isinstance(self.value[0], str)

    @property
    def is_list_of_images(self) -> bool:
        """Whether it is a list of images, perhaps of different sizes."""
        return not self.is_tensor and is_tensor(self.value[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor; of a list, its length."""
        return tuple(self.value.shape) if self.is_tensor else (len(self.value),)

    @property
    def count(self) -> int:
        """Its entries; 0 of a tensor without axes."""
        return int(self.shape[0]) if self.shape else 0

    @property
    def is_column(self) -> bool:
        """Whether it has one value for each sample."""
        shape = self.shape
        if self.is_list_of_images:
            return False
        return len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)

    @property
    def is_integer(self) -> bool:
        """Whether it is a tensor of whole numbers or of booleans."""
        return self.is_tensor and dtype_name(self.value).startswith(("int", "uint", "bool"))


def leaves_of(batch: Any) -> list[Leaf]:
    """All parts of a batch, in its order."""
    is_images = _is_images(batch) and len(batch) > LEAST_IMAGES
    if is_tensor(batch) or _is_column(batch) or is_images:
        return [Leaf(name="", value=batch, top=0, has_key=False)]
    if _is_samples(batch):
        batch = _by_key(batch)
    leaves = []
    for leaf in _walk(batch, "", set(), depth=0, top=None, has_key=False):
        leaves.append(leaf)
        if len(leaves) == MAX_LEAVES:
            break
    return leaves


def _walk(
    value: Any, name: str, seen: set[int], *, depth: int, top: int | None, has_key: bool
) -> Iterator[Leaf]:
    """A container is walked once; `seen` has the ids of those done."""
    if is_tensor(value) or (depth > 0 and (_is_column(value) or _is_images(value))):
        yield Leaf(name=name, value=value, top=top or 0, has_key=has_key)
        return
    if depth >= MAX_DEPTH or not isinstance(value, Mapping | list | tuple) or id(value) in seen:
        return
    seen.add(id(value))
    for position, (key, item) in enumerate(_items(value)):
        if position == MAX_LEAVES:
            return
        is_named = isinstance(key, str)
        # The keys of a mapping inside a tuple name its parts well enough.
        is_prefixed = name and not (is_named and name.isdigit())
        yield from _walk(
            item,
            f"{name}.{key}" if is_prefixed else str(key),
            seen,
            depth=depth + 1,
            top=position if top is None else top,
            has_key=has_key or is_named,
        )


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    """The elements of a container with their keys: names, or positions."""
    if isinstance(value, Mapping):
        return ((str(key), item) for key, item in value.items())
    names = getattr(value, "_fields", None)  # of a named tuple
    return iter(zip(names, value, strict=True)) if names else enumerate(value)


def _is_column(value: Any) -> bool:
    """Whether `value` is a list of texts, or of numbers."""
    if not isinstance(value, list | tuple) or not value or hasattr(value, "_fields"):
        return False
    if isinstance(value[0], str):
        return all(isinstance(each, str) for each in value)
    return all(isinstance(each, int | float) for each in value)


def _is_images(value: Any) -> bool:
    """Whether `value` is a list of images [C, H, W], as detection models get them."""
    if not isinstance(value, list | tuple) or not value or hasattr(value, "_fields"):
        return False
    return all(
        is_tensor(each) and len(each.shape) == 3 and each.shape[0] in COLOURS for each in value
    )


def _is_samples(batch: Any) -> bool:
    """Whether `batch` is a list of samples that were not collated."""
    is_list = isinstance(batch, list | tuple) and len(batch) > 1
    return is_list and all(isinstance(each, Mapping) for each in batch)


def _by_key(samples: Sequence[Mapping[Any, Any]]) -> dict[str, list[Any]]:
    """Their texts and numbers, as columns."""
    columns = {
        str(key): [sample.get(key) for sample in samples]
        for key, value in samples[0].items()
        if isinstance(value, str | int | float)
    }
    return {key: column for key, column in columns.items() if _is_column(column)}


def element(batch: Any, name: str | int) -> Any:
    """The part of a batch under a key, a dotted path or a position; None if there is none.

    >>> element({"obs": {"pos": [1, 2]}}, "obs.pos")
    [1, 2]
    """
    if isinstance(name, str) and isinstance(batch, Mapping) and name in batch:
        return batch[name]
    value = batch
    for key in str(name).split("."):
        value = _child(value, key)
        if value is None:
            return None
    return value


def _child(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        named = {str(each): item for each, item in value.items()}
        return named.get(key)
    if isinstance(value, list | tuple) and key.lstrip("-").isdigit():
        position = int(key)
        return value[position] if -len(value) <= position < len(value) else None
    return None if isinstance(value, list) or is_tensor(value) else getattr(value, key, None)
