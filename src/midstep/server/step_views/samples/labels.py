"""Targets and predictions as one number or text for each sample, with the names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.view import SampleView
from midstep.server.array_json import as_array, is_tensor, numbers, shape_of
from midstep.server.step_views.samples.columns import class_marks, marked_names, short
from midstep.server.step_views.samples.texts import (
    answered_tokens,
    decode_rows,
    list_length,
    shortened,
    target_texts,
)

LABEL_LENGTH = 48
LABEL_NUMBERS = 16
"""First numbers of a prediction that has several."""


def labels_of(shown: ShownSamples, *, most: int = LABEL_LENGTH) -> list[Any] | None:
    """The target of each sample; None where it is a mask, has columns, or is not known.

    A text is empty where the target says nothing that the input does not.

    Args:
        shown: the samples.
        most: characters of a text.
    """
    named = shown.view is not None and shown.view.target is not None
    given = None if named else listed(shown.labels, most)
    if given is None:
        given = _target_labels(shown, most)
    return given if given is None else with_names(given, shown.view)


def _target_labels(shown: ShownSamples, most: int) -> list[Any] | None:
    kind, target = shown.description.target_kind, shown.slices.target
    if kind == "value":
        is_text = not is_tensor(target) and bool(target) and isinstance(target[0], str)
        return listed(target, max(most, list_length(len(target))) if is_text else most)
    if kind == "tokens":
        texts = target_texts(shown)
        length = max(most, list_length(shown.stop - shown.first))
        return texts and [shortened(each or "", length) for each in texts]
    return class_marks(shown, shown.slices)


def with_names(values: Sequence[Any], view: SampleView | None) -> list[Any]:
    """Numbers of classes replaced by their names, where the view has one."""
    names: Mapping[int, str] = {} if view is None else view.class_names
    return [names.get(each, each) if type(each) in (int, bool) else each for each in values]


def predictions_of(shown: ShownSamples, *, most: int = LABEL_LENGTH) -> list[Any] | None:
    """The prediction for each sample; None for maps, and where it is not known.

    Args:
        shown: the samples.
        most: characters of a text.
    """
    values, kind, view = shown.predictions, shown.prediction_kind, shown.view
    if values is None or kind == "map":
        return None
    if kind == "class":
        named = listed(values, most)
        return named if named is None else with_names(named, view)
    if kind == "classes" and is_tensor(values):
        marked = marked_names(as_array(values), {} if view is None else view.class_names)
        if marked is not None:
            return marked
    if kind == "tokens" and view is not None and view.text is not None:
        texts, _ = decode_rows(view, answered_tokens(shown))
        length = max(most, list_length(len(values)))
        return texts and [shortened(each, length) for each in texts]
    return _several(values, most)


def _several(values: Any, most: int) -> list[Any] | None:
    """One number for each sample, or a text with its first numbers."""
    if not is_tensor(values) or len(values.shape) <= 1:
        return listed(values, most)
    if len(values.shape) != 2:
        return None
    rows = as_array(values[:, :LABEL_NUMBERS])
    if rows.shape[1] == 1:
        return numbers(rows[:, 0])
    return [" ".join(map(short, row)) for row in rows.tolist()]


def listed(values: Any, most: int = LABEL_LENGTH) -> list[Any] | None:
    """One number or text for each sample; None if there are none."""
    if is_tensor(values):
        try:
            array = as_array(values)
        except (TypeError, RuntimeError):
            return None
        return numbers(array.reshape(-1)) if array.dtype.kind in "biuf" else None
    return [_label(value, most) for value in values] if isinstance(values, Sequence) else None


def _label(value: Any, most: int) -> Any:
    if hasattr(value, "item") and not isinstance(value, str):
        return value.item() if getattr(value, "ndim", 0) == 0 else str(shape_of(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return shortened(str(value), most)


def ids_of(values: Any) -> list[int] | None:
    """Sample ids as whole numbers."""
    ids = listed(values)
    is_valid = ids is not None and all(isinstance(value, int) for value in ids)
    return ids if is_valid else None
