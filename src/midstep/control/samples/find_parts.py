"""`find_parts`: chooses the parts of a batch that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from midstep.control.samples.batch_parts import (
    NO_PARTS,
    BatchParts,
    PartsDescription,
    first_of,
    is_real_column,
    with_target,
)
from midstep.control.samples.layout import (
    LINES,
    PICTURES,
    SampleKind,
    SampleLayout,
    layout_of,
    layout_of_images,
)
from midstep.control.samples.leaves import Leaf, element, leaves_of
from midstep.control.samples.part_names import kind_of_name, role_of_name
from midstep.control.samples.view import KIND_WORDS, NO_VIEW, SampleView

MAX_COLUMNS = 32
"""Columns besides the input of the model; of a table or of nested mappings all of them."""
_NAMED_FIRST: tuple[SampleKind, ...] = (*PICTURES, "text", "tokens", *LINES)


def find_parts(batch: Any, view: SampleView | None = None) -> BatchParts:
    """The parts of `batch` that are shown. Nothing is read from a device.

    Args:
        batch: as the loop got it.
        view: what the user says about it.
    """
    if batch is None:
        return NO_PARTS
    try:
        return _Finder(batch, NO_VIEW if view is None else view).find()
    except Exception:  # noqa: BLE001 - a type of the user, such as a tensor without a shape
        return NO_PARTS


class _Finder:
    """Looks for the parts of one batch."""

    def __init__(self, batch: Any, view: SampleView) -> None:
        self._batch, self._view = batch, view
        self._notes: list[str] = []
        self._kind = view.kind
        self._target_is_mask = view.kind == "image_mask"

    def find(self) -> BatchParts:
        target = self._target_of_view()
        parts = self._input(target)
        if target is None:
            target = self._guess_target(parts)
        if target is not None:
            leaf, is_sure = target
            is_mask = self._target_is_mask or role_of_name(leaf.name) == "mask"
            parts = with_target(
                parts,
                leaf.value,
                leaf.name,
                is_sure=is_sure,
                is_named_mask=is_mask,
                has_text=self._view.text is not None,
            )
        parts = self._with_padding(parts)
        note = "; ".join(self._notes) or None
        return replace(parts, description=replace(parts.description, note=note))

    # -- what the view names ----------------------------------------------------------------------

    def _named(self, what: str, name: str | int) -> Any:
        """The part that the view names; None, with a note, if the batch has none."""
        value = element(self._batch, name)
        if value is None:
            known = ", ".join(leaf.name or "one tensor" for leaf in leaves_of(self._batch)[:8])
            self._notes.append(
                f"view({what}={name!r}) names no part of this batch, which has: {known or 'none'}"
            )
        return value

    def _target_of_view(self) -> tuple[Leaf, bool] | None:
        name = self._view.target
        if name is None:
            return None
        if element(self._batch, name) is None and KIND_WORDS.get(str(name)) == "image_mask":
            self._target_is_mask = True  # no part has this name: the name says what the target is
            return None
        leaf = first_of(leaves_of(self._named("target", name)))
        return None if leaf is None else (replace(leaf, name=str(name)), True)

    # -- what the model gets ----------------------------------------------------------------------

    def _input(self, target: tuple[Leaf, bool] | None) -> BatchParts:
        name = self._view.input
        leaves = leaves_of(self._batch)
        if name is not None:
            if element(self._batch, name) is None and KIND_WORDS.get(str(name)) is not None:
                self._kind = self._kind or KIND_WORDS[str(name)]
            else:
                value = self._named("input", name)
                if value is None:
                    return NO_PARTS
                within = leaves_of(value)
                if len(within) == 1:
                    chosen = replace(within[0], name=str(name), top=self._top_of(value, leaves))
                    return self._of_leaf(chosen, leaves)
                return self._choose(within)
        taken = None if target is None else target[0].value
        return self._choose([leaf for leaf in leaves if leaf.value is not taken])

    def _top_of(self, value: Any, leaves: Sequence[Leaf]) -> int:
        return next((leaf.top for leaf in leaves if leaf.value is value), 0)

    def _choose(self, leaves: Sequence[Leaf]) -> BatchParts:
        candidates = [leaf for leaf in leaves if not (leaf.has_key and role_of_name(leaf.name))]
        candidates = candidates or [leaf for leaf in leaves if role_of_name(leaf.name) != "beside"]
        candidates = candidates or list(leaves)
        if isinstance(self._batch, list | tuple) and candidates:
            # (inputs, targets), one of them or both with names.
            first = candidates[0]
            candidates = [
                leaf
                for leaf in candidates
                if (leaf.top == first.top if first.has_key else not leaf.has_key)
            ]
        if self._view.columns and all(leaf.has_key for leaf in leaves):
            return self._of_columns([leaf for leaf in leaves if leaf.name in self._view.columns])
        named = self._named_input(candidates)
        if named is not None:
            return self._of_leaf(named, leaves)
        if len(candidates) > 1 and all(leaf.has_key for leaf in candidates):
            return self._of_mapping(candidates, leaves)
        columns = [leaf for leaf in candidates if leaf.is_column]
        if len(columns) == len(candidates) > 1 and not any(leaf.is_text for leaf in columns):
            # (users, items, ratings): no tensor alone is the input of the model.
            return self._of_columns(columns[:-1])
        chosen = _first_input(candidates)
        return NO_PARTS if chosen is None else self._of_leaf(chosen, leaves)

    def _named_input(self, candidates: Sequence[Leaf]) -> Leaf | None:
        """The part whose name says what it is, if it can be that; pictures before texts."""
        by_kind: dict[SampleKind, Leaf] = {}
        for leaf in candidates:
            kind = kind_of_name(leaf.name) if leaf.has_key else None
            if kind is None:
                continue
            shown = _kind_of_leaf(leaf, kind)
            # A column of numbers with the name `token` or `image` is not what its name says.
            if shown in _NAMED_FIRST and (leaf.is_text or not leaf.is_column):
                by_kind.setdefault(shown, leaf)
        return first_of(by_kind[kind] for kind in _NAMED_FIRST if kind in by_kind)

    def _of_mapping(self, candidates: Sequence[Leaf], leaves: Sequence[Leaf]) -> BatchParts:
        """Parts that are named, with names that say nothing: columns, unless one is a picture."""
        tensors = [leaf for leaf in candidates if leaf.is_tensor]
        pictures = (leaf for leaf in tensors if len(leaf.shape) >= 4)
        lines = (leaf for leaf in tensors if layout_of(leaf.value).is_line)
        chosen = first_of(pictures) or first_of(lines)
        if chosen is None and all(leaf.is_text for leaf in candidates):
            chosen = candidates[0]
        return self._of_columns(candidates) if chosen is None else self._of_leaf(chosen, leaves)

    def _of_leaf(self, leaf: Leaf, leaves: Sequence[Leaf]) -> BatchParts:
        columns = self._beside(leaf, leaves)
        names = tuple(each.name for each in columns)
        values = tuple(each.value for each in columns)
        if leaf.is_list_of_images:
            layout = layout_of_images(leaf.value)
            described = PartsDescription(layout=layout, input_name=leaf.name, columns=names)
            return BatchParts(description=described, tensor=leaf.value, columns=values)
        if not leaf.is_tensor:
            kind: SampleKind = "text" if leaf.is_text else "table"
            layout = SampleLayout(kind=kind, shape=(leaf.count,), dtype="text")
            if not leaf.is_text:
                names, values = (leaf.name or "value", *names), (leaf.value, *values)
            described = PartsDescription(layout=layout, input_name=leaf.name, columns=names)
            texts = leaf.value if leaf.is_text else None
            return BatchParts(description=described, texts=texts, columns=values)
        layout = layout_of(leaf.value, self._wanted(leaf))
        if layout.kind == "vectors" and self._view.columns:
            layout, names, values = replace(layout, kind="table"), self._view.columns, ()
        described = PartsDescription(layout=layout, input_name=leaf.name, columns=names)
        return BatchParts(description=described, tensor=leaf.value, columns=values)

    def _wanted(self, leaf: Leaf) -> SampleKind | None:
        if self._kind is not None:
            return "tokens" if self._kind == "text" else self._kind
        if self._view.columns:
            return "vectors"
        if leaf.has_key or self._view.input is not None:
            kind = kind_of_name(leaf.name)
            return "tokens" if kind == "text" else kind
        return None

    def _beside(self, chosen: Leaf, leaves: Sequence[Leaf]) -> list[Leaf]:
        """Named parts with one value for each sample, except the target."""
        return [
            leaf
            for leaf in leaves
            if leaf.has_key
            and leaf.value is not chosen.value
            and leaf.is_column
            and leaf.count == chosen.count
            and role_of_name(leaf.name) not in ("target", "mask")
            and is_real_column(leaf.value)
        ][:MAX_COLUMNS]

    def _of_columns(self, leaves: Sequence[Leaf]) -> BatchParts:
        """A table, or nested mappings where a part has several values for each sample."""
        shown = [leaf for leaf in leaves if leaf.shape and is_real_column(leaf.value)]
        counts = [leaf.count for leaf in shown]
        count = max(set(counts), key=counts.count, default=0)
        shown = [leaf for leaf in shown if leaf.count == count]
        if count == 0:
            return NO_PARTS
        kind: SampleKind = "table" if all(leaf.is_column for leaf in shown) else "nested"
        layout = SampleLayout(kind=kind, shape=(count, len(shown)), dtype="columns")
        described = PartsDescription(layout=layout, columns=tuple(leaf.name for leaf in shown))
        return BatchParts(description=described, columns=tuple(leaf.value for leaf in shown))

    # -- the target -------------------------------------------------------------------------------

    def _guess_target(self, parts: BatchParts) -> tuple[Leaf, bool] | None:
        """The target, and whether it is sure to be one."""
        leaves = leaves_of(self._batch)
        used = {id(parts.tensor), id(parts.texts), *map(id, parts.columns)}
        free = [leaf for leaf in leaves if id(leaf.value) not in used]
        for role in ("mask", "target") if parts.layout.is_picture else ("target",):
            named = (leaf for leaf in free if leaf.has_key and role_of_name(leaf.name) == role)
            leaf = first_of(named)
            if leaf is not None:
                return leaf, True
        return self._guess_by_position(parts, leaves, free)

    def _guess_by_position(
        self, parts: BatchParts, leaves: Sequence[Leaf], free: Sequence[Leaf]
    ) -> tuple[Leaf, bool] | None:
        """The second part of a pair; else the part after the input, if it may be a target."""
        batch = self._batch
        if not isinstance(batch, list | tuple) or hasattr(batch, "_fields"):
            return None
        shown = {id(parts.tensor), id(parts.texts), *map(id, parts.columns)}
        tops = [leaf.top for leaf in leaves if id(leaf.value) in shown]
        if not tops:
            return None
        following = [leaf for leaf in free if leaf.top == max(tops) + 1]
        if len(following) != 1 or following[0].has_key:
            return None
        return following[0], len(batch) == 2

    # -- padding ----------------------------------------------------------------------------------

    def _with_padding(self, parts: BatchParts) -> BatchParts:
        """The part that says which tokens count."""
        if parts.layout.kind != "tokens":
            return parts
        shape = tuple(parts.tensor.shape)
        for leaf in leaves_of(self._batch):
            is_mask = leaf.name.rsplit(".", 1)[-1] == "attention_mask"
            if is_mask and leaf.is_tensor and leaf.shape == shape:
                return replace(parts, attention=leaf.value)
        return parts


def _kind_of_leaf(leaf: Leaf, wanted: SampleKind | None) -> SampleKind:
    if leaf.is_tensor:
        return layout_of(leaf.value, wanted).kind
    return "images" if leaf.is_list_of_images else "text" if leaf.is_text else "table"


def _first_input(leaves: Sequence[Leaf]) -> Leaf | None:
    """The first float tensor with two or more axes, else the first with two or more, else texts."""
    tensors = [leaf for leaf in leaves if leaf.is_tensor]
    rows = [leaf for leaf in leaves if leaf.is_list_of_images or len(leaf.shape) >= 2]
    floats = [leaf for leaf in rows if not leaf.is_integer]
    texts = [leaf for leaf in leaves if leaf.is_text]
    return first_of((*floats, *rows, *texts, *tensors, *leaves))
