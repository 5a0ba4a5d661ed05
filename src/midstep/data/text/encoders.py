"""Encoders turn texts into vectors. An encoder has a name, a width and a method `encode`.

`HashingEncoder` needs numpy only. It hashes every word, its beginning and every pair of
neighbouring words to a few signed slots of the vector, so texts that share words get similar
vectors.

`SentenceEncoder` also knows meanings; use it if a model is on disk. It runs a transformer from a
folder in the format of sentence-transformers, and pools its tokens to a unit vector. Running it
needs the package transformers only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ConfigError, DatasetError, MissingExtraError
from midstep.core.random_streams import mix_words
from midstep.data.text.text_files import parse_json

SLOTS = 8
"""Slots of the vector that a feature is hashed to. More slots reduce the noise between words."""
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by can did do does for from had has have how i if in into "
        "is it its many much no not of on or so than that the their them then there these they "
        "this to was we were what when where which who why will with you your",
    )
)
_COMMON_WEIGHT, _PAIR_WEIGHT, _START_WEIGHT = 0.15, 0.5, 0.5
_START_LETTERS = 5

POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
LONGEST = 256
"""Tokens of a text that the model reads, if its settings do not say."""


@runtime_checkable
class Encoder(Protocol):
    """What the builder needs. The same text must always give the same vector."""

    @property
    def name(self) -> str:
        """Identifies the encoder; build.json records it."""

    @property
    def dimension(self) -> int:
        """Width of the vectors."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text: [N, dimension]."""


class HashingEncoder:
    """Signed feature hashing of words (Weinberger et al. 2009); rows have length 1.

    Each text is encoded alone: nothing is fitted, so no split can leak into another.

    Args:
        dimension: width of the vectors.

    >>> rows = HashingEncoder(64).encode(["The red fox", "red foxes", "a blue whale"])
    >>> rows.shape, bool(rows[0] @ rows[1] > rows[0] @ rows[2])
    ((3, 64), True)
    """

    def __init__(self, dimension: int = 384) -> None:
        if dimension < 2:
            raise ConfigError(
                f"a hashing encoder needs a width of at least 2, got {dimension}; 384 is usual"
            )
        self.dimension = dimension
        self._slots: dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    @property
    def name(self) -> str:
        """`hashing-` and the width."""
        return f"hashing-{self.dimension}"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row for each text; a text without words is hashed as a whole."""
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            vector = self._vector(text)
            length = float(np.linalg.norm(vector))
            if length == 0:
                vector = self._sum([(f"text:{text}", 1.0)])
                length = float(np.linalg.norm(vector)) or 1.0
            rows[row] = vector / length
        return rows

    def _vector(self, text: str) -> NDArray[np.float64]:
        counts = Counter(_features(_WORD.findall(text.casefold())))
        # The logarithm, because the twentieth use of a word says less than the first.
        return self._sum([(each, weight * np.log1p(n)) for (each, weight), n in counts.items()])

    def _sum(self, features: Sequence[tuple[str, float]]) -> NDArray[np.float64]:
        if not features:
            return np.zeros(self.dimension)
        hashed = [self._hash_feature(feature) for feature, _ in features]
        slots = np.concatenate([each[0] for each in hashed])
        signs = np.concatenate([each[1] for each in hashed])
        weights = np.repeat([weight for _, weight in features], SLOTS)
        total: NDArray[np.float64] = np.bincount(
            slots, weights=signs * weights, minlength=self.dimension
        ).astype(np.float64)
        return total

    def _hash_feature(self, feature: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        known = self._slots.get(feature)
        if known is None:
            key = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            words = mix_words(
                np.uint64(int.from_bytes(key, "little")) + np.arange(1, SLOTS + 1).view("u8")
            )
            slots = (words >> np.uint64(1)) % np.uint64(self.dimension)
            signs = 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)
            known = slots.astype(np.int64), signs
            if len(self._slots) < 1_000_000:  # bounds the memory that a long corpus takes
                self._slots[feature] = known
        return known


def _features(words: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Features of a text with their weights: words, beginnings of words, neighbouring words."""
    before = ""
    for word in words:
        common = word in _COMMON
        yield word, _COMMON_WEIGHT if common else 1.0
        if not common and len(word) >= _START_LETTERS - 1:
            yield f"{word[:_START_LETTERS]}…", _START_WEIGHT
        if before and not (common and before in _COMMON):
            yield f"{before} {word}", _PAIR_WEIGHT * (_COMMON_WEIGHT if common else 1.0)
        before = word


class CallableEncoder:
    """Makes an encoder of a function.

    Args:
        function: takes a list of texts and returns an array or tensor [N, D].
        name: identifies the encoder; by default the name of the function.

    >>> encoder = CallableEncoder(lambda texts: [[len(text), 1.0] for text in texts], name="length")
    >>> encoder.dimension, encoder.encode(["abc"]).tolist()
    (2, [[3.0, 1.0]])
    """

    def __init__(self, function: Callable[[list[str]], Any], name: str | None = None) -> None:
        self._function = function
        self.name = str(name or getattr(function, "__qualname__", type(function).__name__))
        self._dimension: int | None = None

    @property
    def dimension(self) -> int:
        """Width of the function's vectors; found out once, with one short text."""
        if self._dimension is None:
            vectors = np.asarray(self._function(["midstep"]))
            if vectors.ndim != 2:
                raise DatasetError(
                    f"encoder {self.name} gave the shape {list(vectors.shape)} for one text, "
                    "expected [1, D]"
                )
            self._dimension = int(vectors.shape[1])
        return self._dimension

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The function's vectors as float32."""
        return np.asarray(self._function(list(texts)), dtype=np.float32)


class SentenceEncoder:
    """An `Encoder` that runs a transformer from a folder.

    Args:
        folder: the folder of the model.
        batch_size: texts encoded together; texts of similar length share a batch.
        device: where the model runs.
    """

    def __init__(self, folder: str | Path, *, batch_size: int = 32, device: str = "cpu") -> None:
        self.folder = Path(folder)
        check_model(self.folder)
        self._pooling = _pooling(self.folder)
        self._longest = int(
            _read_settings(self.folder / "sentence_bert_config.json").get("max_seq_length", LONGEST)
        )
        self._tokenizer, self._model = _load_model(self.folder, device)
        self._batch_size, self._device = batch_size, device
        self.dimension = int(self._model.config.hidden_size)

    @property
    def name(self) -> str:
        """`sentence:` and the name of the folder."""
        return f"sentence:{self.folder.name}"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row of length 1 for each text."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        # Sorted by length, so that a batch needs little padding.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            vectors[rows] = self._batch([texts[row] for row in rows])
        return vectors

    def _batch(self, texts: list[str]) -> NDArray[np.float32]:
        import torch

        tokens = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            hidden = self._model(**tokens).last_hidden_state.float()
            if self._pooling == "mean":
                mask = tokens["attention_mask"][:, :, None].float()
                pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
            else:
                pooled = hidden[:, 0]
            unit: NDArray[np.float32] = torch.nn.functional.normalize(pooled).cpu().numpy()
        return unit


def check_model(folder: Path) -> None:
    """Raise if the folder holds no model that can run here. The model is not loaded."""
    if not (folder / "config.json").is_file():
        raise DatasetError(
            f"{folder} holds no model (no config.json); name the folder of a sentence encoder "
            "on this machine, or use the encoder 'hashing'"
        )
    _pooling(folder)
    if importlib.util.find_spec("transformers") is None:
        raise MissingExtraError.for_library("transformers", "hf")


def _load_model(folder: Path, device: str) -> tuple[Any, Any]:
    from transformers import AutoModel, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        # Neither pickled weights nor Python files: both would run code from the folder.
        model = AutoModel.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0][:200]
        raise DatasetError(
            f"no sentence encoder could be loaded from {folder}: {reason}"
        ) from error
    return tokenizer, model.to(device).eval()


def _pooling(folder: Path) -> str:
    """How tokens become one vector; the mean if the model does not say."""
    settings = _read_settings(folder / "1_Pooling" / "config.json")
    modes = [key for key, on in settings.items() if key.startswith("pooling_mode_") and on is True]
    if not modes:
        return "mean"
    if len(modes) > 1 or modes[0] not in POOLINGS:
        raise DatasetError(
            f"{folder} pools its tokens by {', '.join(modes)}; supported are the mean and the "
            "first token; for others pass the model's own encode function as the encoder"
        )
    return POOLINGS[modes[0]]


def _read_settings(path: Path) -> dict[str, Any]:
    settings = parse_json(path.read_bytes(), str(path)) if path.is_file() else {}
    return settings if isinstance(settings, dict) else {}


def sentence_encoder(folder: str | Path, *, batch_size: int = 32, device: str = "cpu") -> Encoder:
    """Load a sentence encoder from a local folder; nothing is downloaded.

    Args:
        folder: a model as sentence-transformers saves it: weights, tokenizer, pooling.
        batch_size: texts encoded together.
        device: where the model runs.

    Raises:
        MissingExtraError: if transformers is not installed.
        DatasetError: if the folder holds no model, or a model with an unknown pooling.
    """
    return SentenceEncoder(folder, batch_size=batch_size, device=device)


def encoder_from(value: Encoder | Callable[[list[str]], Any] | str) -> Encoder:
    """An encoder from its name, from a function, or the encoder itself.

    Args:
        value: `hashing`, `hashing:WIDTH`, `sentence:FOLDER`, an `Encoder`, or a function of texts.

    >>> encoder_from("hashing:128").name
    'hashing-128'
    """
    if isinstance(value, str):
        kind, _, rest = value.partition(":")
        if kind == "hashing" and (not rest or rest.isdecimal()):
            return HashingEncoder(int(rest)) if rest else HashingEncoder()
        if kind == "sentence" and rest:
            return sentence_encoder(rest)
        raise ConfigError(
            f"encoder {value!r} is unknown; use hashing, hashing:WIDTH or sentence:FOLDER"
        )
    if isinstance(value, Encoder):
        return value
    if callable(value):
        return CallableEncoder(value)
    raise ConfigError(f"an encoder is a name, an Encoder or a function, got {value!r}")


def check_encoder(value: Encoder | Callable[[list[str]], Any] | str) -> None:
    """Raise what `encoder_from` would raise. A model must exist, but is not loaded."""
    kind, _, folder = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind == "sentence" and folder:
        check_model(Path(folder))
    else:
        encoder_from(value)


def encode_checked(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Encode texts, and raise a `DatasetError` unless there is one finite row for each."""
    vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
    wanted = (len(texts), encoder.dimension)
    if vectors.shape != wanted:
        raise DatasetError(
            f"encoder {encoder.name} gave the shape {list(vectors.shape)} for {len(texts)} texts, "
            f"expected {list(wanted)}"
        )
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise DatasetError(
            f"encoder {encoder.name} gave a value that is not finite for {texts[wrong[0]][:80]!r}"
        )
    return np.ascontiguousarray(vectors)
