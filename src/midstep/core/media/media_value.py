"""`MediaValue`: a logged picture, text, histogram or table.

It is copied on the training thread, because the loop may change its own value afterwards. It is
encoded later, by the thread that writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

MediaKind = Literal["image", "text", "histogram", "table"]


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pictures that are not encoded yet: an array or a tensor, perhaps on a device."""

    array: Any
    axes: str
    """What its dimensions are: HW, CHW, HWC, NCHW or NHWC."""
    every: int = 1
    """Of a very large picture only every n-th pixel was copied; this is n."""
    of: int = 1
    """How many pictures there were; fewer were copied if there were very many."""


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """A picture that a library has encoded as PNG."""

    png: bytes


@dataclass(frozen=True, slots=True)
class Numbers:
    """The values of a histogram: an array, a tensor or a list."""

    values: Any
    of: int
    """How many values there were; fewer were copied if there were very many."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a table."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    of: int
    """How many rows there were."""


@dataclass(frozen=True, slots=True)
class MediaValue:
    """What a loop logged under a name, other than a number."""

    kind: MediaKind
    content: Pixels | EncodedPicture | Numbers | Rows | str
    """A copy of our own."""
    bytes: int
    """About what the copy takes in memory."""
    ready: Any = None
    """An event after the copy on a device; None if the copy is complete."""

    def wait(self) -> None:
        """Wait until the copy is complete. Never called on the training thread."""
        if self.ready is not None:
            self.ready.synchronize()


def scalars_of(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values that are not media.

    >>> list(scalars_of({"loss": 0.5, "note": MediaValue("text", "done", 4)}))
    ['loss']
    """
    if all(type(value) is not MediaValue for value in values.values()):
        return values
    return {name: value for name, value in values.items() if type(value) is not MediaValue}
