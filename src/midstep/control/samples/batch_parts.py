"""The parts of a batch that are shown: input of the model, target, mask and columns.

`find_parts` chooses them, by the view of the user or else by names, shapes and types; see
docs/how-to/show-my-samples.md. Where a choice is not sure, it shows less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from midstep.control.samples.layout import NO_SAMPLES, ROWS, TOKEN_VALUES, SampleLayout
from midstep.control.samples.tensor_facts import (
    dtype_name,
    is_dense,
    is_tensor,
    rows_of,
)

Item = TypeVar("Item")
TargetKind = Literal["none", "value", "values", "tokens", "mask", "maybe_mask"]
MAX_TARGETS = 16
"""Numbers of one target that are shown."""
CELL_VALUES = 16
"""First values of a column that has several for each sample."""


@dataclass(frozen=True, kw_only=True)
class PartsDescription:
    """What the parts of a batch are, without the parts themselves."""

    layout: SampleLayout = NO_SAMPLES
    """How the input of the model is shown."""
    input_name: str = ""
    columns: tuple[str, ...] = ()
    """Names of the parts that are shown as columns, or of the values of a row."""
    target_name: str = ""
    target_kind: TargetKind = "none"
    note: str | None = None
    """Parts that the view names and the batch lacks."""


@dataclass(frozen=True, kw_only=True)
class SampleSlices:
    """Some samples, part by part: views, or copies of them."""

    values: Any = None
    """See `SampleLayout.view`."""
    texts: Any = None
    attention: Any = None
    """Which of the tokens count."""
    mask: Any = None
    """[N, h, w], with the stride of the images."""
    target: Any = None
    columns: tuple[Any, ...] = ()

    def each(self, change: Callable[[Any], Any]) -> SampleSlices:
        """The same with every part changed; a part that is missing stays so."""

        def changed(part: Any) -> Any:
            return None if part is None else change(part)

        return SampleSlices(
            values=changed(self.values),
            texts=changed(self.texts),
            attention=changed(self.attention),
            mask=changed(self.mask),
            target=changed(self.target),
            columns=tuple(map(changed, self.columns)),
        )


@dataclass(frozen=True, kw_only=True)
class BatchParts:
    """The parts of one batch, by reference."""

    description: PartsDescription
    tensor: Any = None
    """The input of the model, if it is a tensor."""
    texts: Any = None
    attention: Any = None
    mask: Any = None
    target: Any = None
    columns: tuple[Any, ...] = ()

    @property
    def layout(self) -> SampleLayout:
        """How the input of the model is shown."""
        return self.description.layout

    def cut(
        self, first: int, stop: int, *, stride: int | None = None, full: bool = False
    ) -> SampleSlices:
        """Views of some samples.

        Args:
            first: the first sample.
            stop: the sample after the last one.
            stride: of pictures and curves; that of tiles when left out.
            full: whether tokens and columns have all their values.
        """
        layout = self.layout
        step = layout.stride if stride is None else stride
        tokens, cells = (None, None) if full else (TOKEN_VALUES, CELL_VALUES)
        values = None if self.tensor is None else layout.view(self.tensor, first, stop, stride=step)
        if full and layout.kind in ROWS and self.tensor is not None:
            values = rows_of(self.tensor[first:stop])
        return SampleSlices(
            values=values,
            texts=None if self.texts is None else self.texts[first:stop],
            attention=None if self.attention is None else self.attention[first:stop, :tokens],
            mask=None if self.mask is None else _cut_mask(self.mask, first, stop, step),
            target=self._cut_target(first, stop, tokens),
            columns=tuple(cut_column(each, first, stop, cells) for each in self.columns),
        )

    def _cut_target(self, first: int, stop: int, tokens: int | None) -> Any:
        kind = self.description.target_kind
        if self.target is None or kind in ("none", "mask", "maybe_mask"):
            return None
        if kind == "value":
            return cut_column(self.target, first, stop, 1)
        return self.target[first:stop][:, : tokens if kind == "tokens" else MAX_TARGETS]


NO_PARTS = BatchParts(description=PartsDescription())


def cut_column(column: Any, first: int, stop: int, most: int | None) -> Any:
    """Entries of a column: a list, [N], or [N, values] where each sample has several."""
    if not is_tensor(column):
        return column[first:stop]
    chosen = column[first:stop]
    if math.prod(tuple(column.shape)) == column.shape[0]:
        return chosen.reshape((-1,))
    return rows_of(chosen)[:, :most]


def _cut_mask(mask: Any, first: int, stop: int, step: int) -> Any:
    chosen = mask[first:stop]
    height, width = (int(side) for side in mask.shape[-2:])
    return chosen.reshape((stop - first, height, width))[:, ::step, ::step]


def fitting_mask(mask: Any, layout: SampleLayout) -> bool:
    """Whether `mask` has one value for each pixel of the images."""
    shape = tuple(mask.shape) if is_tensor(mask) else ()
    sides = (layout.height, layout.width)
    fits = shape[-2:] == sides and math.prod(shape) == layout.count * sides[0] * sides[1]
    return layout.is_picture and fits and len(shape) in (3, 4) and is_dense(mask)


def is_real_column(value: Any) -> bool:
    """Whether a column can be shown: a list, or a tensor of real numbers."""
    return not is_tensor(value) or is_dense(value)


def with_target(
    parts: BatchParts,
    target: Any,
    name: str,
    *,
    is_sure: bool,
    is_named_mask: bool,
    has_text: bool,
) -> BatchParts:
    """`parts` with this target, if it fits the samples.

    Args:
        parts: what the model gets.
        target: a tensor or a list.
        name: of the target.
        is_sure: whether the user, or its name, says that it is the target.
        is_named_mask: whether the user, or its name, says that it is a mask.
        has_text: whether tokens can be shown as text.
    """
    kind = _target_kind(
        parts, target, is_sure=is_sure, is_named_mask=is_named_mask, has_text=has_text
    )
    if kind == "none":
        return parts
    described = replace(parts.description, target_name=name, target_kind=kind)
    if kind not in ("mask", "maybe_mask"):
        return replace(parts, description=described, target=target)
    if kind == "mask" and described.layout.kind == "images":
        described = replace(described, layout=replace(described.layout, kind="image_mask"))
    return replace(parts, description=described, mask=target)


def _target_kind(
    parts: BatchParts, target: Any, *, is_sure: bool, is_named_mask: bool, has_text: bool
) -> TargetKind:
    layout = parts.layout
    if target is parts.tensor or target is parts.texts or not is_real_column(target):
        return "none"
    shape = tuple(target.shape) if is_tensor(target) else (len(target),)
    if not shape or shape[0] != layout.count:
        return "none"
    if math.prod(shape) == shape[0]:
        return "value"
    if layout.kind == "images" and fitting_mask(target, layout):
        return _mask_kind(parts.tensor, target, is_named_mask=is_named_mask)
    if len(shape) != 2:
        return "none"
    is_integer = dtype_name(target).startswith(("int", "uint"))
    if is_integer and (layout.kind in ("tokens", "text") or has_text):
        return "tokens"
    return "values" if is_sure and shape[1] <= MAX_TARGETS else "none"


def _mask_kind(images: Any, target: Any, *, is_named_mask: bool) -> TargetKind:
    dtype = dtype_name(target)
    if is_named_mask:
        return "mask"
    if "float" in dtype:
        return "maybe_mask"  # or an image to reconstruct: its values will tell a reader
    return "none" if dtype == dtype_name(images) else "mask"


def first_of(values: Iterable[Item]) -> Item | None:
    """The first value; None if there is none."""
    return next(iter(values), None)
