"""`view`: what the user says about the samples of a training, so that nothing has to be guessed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from midstep.control.samples.layout import KINDS, SampleKind
from midstep.core.errors import ConfigError

Text = Callable[[list[int]], str]
"""Turns the token ids of one sample into its text."""

KIND_WORDS: Mapping[str, SampleKind] = {
    "image": "images",
    "mask": "image_mask",
    "video": "frames",
    "token": "tokens",
    "row": "table",
    "vector": "vectors",
    **{kind: kind for kind in KINDS},
}


@dataclass(frozen=True, kw_only=True)
class SampleView:
    """How the samples of a training are shown; made by `midstep.view`."""

    input: str | int | None = None
    """Key or position of the model's input in the batch."""
    target: str | int | None = None
    kind: SampleKind | None = None
    text: Text | None = None
    pad_id: int | None = None
    """The token that fills up shorter samples."""
    denormalize: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Mean and deviation of each channel."""
    class_names: Mapping[int, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    sample_rate: float | None = None
    """Samples per second of a sound, in hertz."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def decode(self, ids: list[int]) -> str:
        """The text of these tokens. One thread at a time: the function is the user's."""
        if self.text is None:
            raise ValueError("the view has no `text`")
        with self._lock:
            return self.text(ids)


NO_VIEW = SampleView()


def view(
    tokenizer: Any = None,
    *,
    input: str | int | None = None,  # noqa: A002 - the word that the user thinks in
    target: str | int | None = None,
    kind: str | None = None,
    text: Any = None,
    denormalize: Any = None,
    class_names: Any = None,
    columns: Sequence[str] | None = None,
    sample_rate: float | None = None,
) -> SampleView:
    """Say how the samples of a training are shown: `attach(…, view=midstep.view(…))`.

    What is left out is guessed from names, shapes and types of the batch. Nothing here is called
    on the training thread, and only for samples that are shown.

    Args:
        tokenizer: the same as `text`.
        input: key or position of the model's input in the batch, such as `"image"`, `0` or
            `"obs.camera"`.
        target: key or position of the target, such as `"mask"` or `"labels"`.
        kind: images, image_mask, frames, text, tokens, table, vectors, audio, series or nested.
        text: a tokenizer, or a function of the token ids of a sample, such as `tokenizer.decode`.
        denormalize: `(mean, std)` with which images were normalized; numbers, or one per channel.
        class_names: names of the classes, as a list or by number; for targets, predictions, masks.
        columns: names of the values of a row; of a batch of named columns, those to show.
        sample_rate: of sounds, in hertz; 16,000 if left out.

    >>> view(input="image", target="mask", class_names=["background", "road"]).class_names[1]
    'road'
    """
    if tokenizer is not None and text is not None:
        raise ConfigError("view got a tokenizer and text=; give one of them")
    decoder = tokenizer if text is None else text
    return SampleView(
        input=_part("input", input),
        target=_part("target", target),
        kind=_kind(kind),
        text=None if decoder is None else _text(decoder),
        pad_id=_pad_id(decoder),
        denormalize=None if denormalize is None else _mean_and_std(denormalize),
        class_names={} if class_names is None else _names(class_names),
        columns=() if columns is None else _columns(columns),
        sample_rate=None if sample_rate is None else _rate(sample_rate),
    )


def as_view(given: Any) -> SampleView | None:
    """What `attach(view=…)` accepts: a view, a tokenizer, or a function of token ids."""
    if given is None or isinstance(given, SampleView):
        return given
    return view(given)


def _part(name: str, value: Any) -> str | int | None:
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise ConfigError(
        f"view({name}=…) must be a key or a position in the batch, got {type(value).__name__}"
    )


def _kind(value: str | None) -> SampleKind | None:
    if value is None:
        return None
    kind = KIND_WORDS.get(value) if isinstance(value, str) else None
    if kind is None:
        raise ConfigError(f"view(kind={value!r}) is unknown; known kinds: {', '.join(KINDS)}")
    return kind


def _text(decoder: Any) -> Text:
    decode = getattr(decoder, "decode", None)
    # A text or bytes object has a method of this name, too.
    chosen = decode if callable(decode) and not isinstance(decoder, str | bytes) else decoder
    if not callable(chosen):
        raise ConfigError(
            "view(text=…) must be a tokenizer, or a function from a list of token ids to a text, "
            f"got {type(decoder).__name__}"
        )
    result: Text = chosen
    return result


def _pad_id(decoder: Any) -> int | None:
    owner = getattr(decoder, "__self__", decoder)  # of the method `tokenizer.decode`
    pad_id = getattr(owner, "pad_token_id", None)
    return pad_id if isinstance(pad_id, int) else None


def _mean_and_std(value: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    try:
        mean, std = (_numbers(each) for each in value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"view(denormalize=…) must be (mean, std), numbers or one per channel, got {value!r}"
        ) from error
    if not all(map(math.isfinite, (*mean, *std))) or 0.0 in std:
        raise ConfigError(f"view(denormalize={value!r}): needs finite numbers, and no std of 0")
    return mean, std


def _numbers(value: Any) -> tuple[float, ...]:
    listed = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(float, listed)) if isinstance(listed, list | tuple) else (float(listed),)


def _names(value: Any) -> Mapping[int, str]:
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        raise ConfigError(
            f"view(class_names=…) must be a list of names, or names by number, got {value!r:.80}"
        )
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    try:
        return {int(number): str(name) for number, name in items}
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"view(class_names=…): the numbers of classes must be whole numbers: {error}"
        ) from error


def _columns(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"view(columns=…) must be a list of names, got {value!r:.80}")
    return tuple(value)


def _rate(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e7:
        raise ConfigError(f"view(sample_rate={value!r}) must be a number of hertz, such as 16000")
    return float(value)
