"""Texts and tokens of samples, decoded in the thread of the request."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from midstep.control.capture.captured_data import ShownSamples
from midstep.control.samples.view import SampleView
from midstep.server.array_json import as_array

log = logging.getLogger("midstep.server")
SHOWN_CHARACTERS = 60_000
"""Characters of all shown texts together."""
LEAST_CHARACTERS, MOST_CHARACTERS = 80, 2_000
"""Characters of one text in a list, by how many there are."""
WHOLE_CHARACTERS = 1_000_000
"""Characters of one sample in full."""
WHOLE_TOKENS = 4_096
"""Tokens of one sample in full whose borders are shown."""


def shortened(text: str, most: int) -> str:
    """At most so many characters; the last one says that others were left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def list_length(count: int) -> int:
    """Characters of one of `count` texts in a list."""
    return max(LEAST_CHARACTERS, min(MOST_CHARACTERS, SHOWN_CHARACTERS // max(1, count)))


def token_rows(
    values: Any, attention: Any = None, view: SampleView | None = None
) -> list[list[int]]:
    """The tokens that count, by sample: without padding, and without numbers below 0.

    Args:
        values: [N, T].
        attention: 0 where a token is padding.
        view: names the token that fills up samples.
    """
    rows = as_array(values)
    kept = rows >= 0
    if attention is not None:
        kept = kept & (as_array(attention) != 0)
    elif view is not None and view.pad_id is not None:
        kept = kept & ~_padding(rows, view.pad_id)
    return [row[keep].tolist() for row, keep in zip(rows, kept, strict=True)]


def _padding(rows: Any, pad_id: int) -> Any:
    """The tokens at both ends that are the padding token; one inside may mean something."""
    is_pad = rows == pad_id
    leading = np.logical_and.accumulate(is_pad, axis=1)
    trailing = np.logical_and.accumulate(is_pad[:, ::-1], axis=1)[:, ::-1]
    return leading | trailing


def decode_rows(view: SampleView, rows: Sequence[list[int]]) -> tuple[list[str] | None, str | None]:
    """The text of each row, and why there is none if the user's function raised."""
    try:
        return [str(view.decode(row)) for row in rows], None
    except Exception as error:
        log.warning("view(text=…) raised; tokens are shown as numbers", exc_info=True)
        return None, f"view(text=…) raised {type(error).__name__}: {str(error)[:200]}"


def texts_of(shown: ShownSamples) -> tuple[list[str] | None, str | None]:
    """The text of each sample, and why there is none; both None where nobody can say."""
    if shown.slices.texts is not None:
        return [str(text) for text in shown.slices.texts], None
    view = shown.view
    if shown.layout.kind != "tokens" or shown.values is None or view is None or view.text is None:
        return None, None
    return decode_rows(view, token_rows(shown.values, shown.slices.attention, view))


def pieces_of(view: SampleView, ids: Sequence[int]) -> list[str] | None:
    """The text of each token as it is in its place; None if the user's function raised.

    A token is decoded after the one before it: many tokenizers write a space only between two.
    """
    alone, _ = decode_rows(view, [[each] for each in ids])
    pairs, _ = decode_rows(view, [list(pair) for pair in pairwise(ids)])
    if alone is None or pairs is None:
        return None
    following = zip(alone, alone[1:], pairs, strict=False)
    return alone[:1] + [_after(first, second, both) for first, second, both in following]


def _after(first: str, second: str, both: str) -> str:
    """What `both` adds to `first`; `second` where it does not begin with it."""
    return both[len(first) :] if both.startswith(first) else second


def target_texts(shown: ShownSamples) -> list[str | None] | None:
    """The text of targets that are tokens; None where it says nothing that the input does not."""
    view = shown.view
    if shown.description.target_kind != "tokens" or view is None or view.text is None:
        return None
    if shown.slices.target is None:
        return None
    rows = token_rows(shown.slices.target, None, view)
    texts, _ = decode_rows(view, rows)
    if texts is None:
        return None
    if shown.layout.kind != "tokens" or shown.values is None:
        return list(texts)
    inputs = token_rows(shown.values, shown.slices.attention, view)
    pairs = zip(texts, rows, inputs, strict=True)
    answers = [None if _repeats(row, given) else text for text, row, given in pairs]
    return answers if any(answers) else None


def answered_tokens(shown: ShownSamples) -> list[list[int]]:
    """The predicted tokens of each sample, only where its target counts."""
    predicted = as_array(shown.predictions)
    if shown.description.target_kind != "tokens" or shown.slices.target is None:
        return token_rows(predicted, None, shown.view)
    target = as_array(shown.slices.target)
    predicted = predicted[:, : target.shape[1]]
    counted = target >= 0
    if _is_next_token(shown, target, counted) and predicted.shape == target.shape:
        predicted = predicted[:, :-1]
    if predicted.shape[1] == target.shape[1] - 1:  # each token predicts the next one
        counted = counted[:, 1:]
    if predicted.shape != counted.shape:
        return token_rows(predicted, None, shown.view)
    return [row[keep].tolist() for row, keep in zip(predicted, counted, strict=True)]


def _is_next_token(shown: ShownSamples, target: Any, counted: Any) -> bool:
    """Whether targets are the tokens of the input at their own places: the model shifts them."""
    if shown.layout.kind != "tokens" or shown.values is None:
        return False
    given = as_array(shown.values)
    return given.shape == target.shape and bool((given == target)[counted].all())


def _repeats(target: list[int], given: list[int]) -> bool:
    """Whether targets are the tokens of the input, as they are or one ahead."""
    ahead = target[:-1] == given[1:] if len(target) == len(given) else target == given[1:]
    return target == given or ahead
