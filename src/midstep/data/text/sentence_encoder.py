"""A sentence encoder from a local folder: a transformer whose tokens are pooled to a unit vector.

The folder has the format of sentence-transformers. Running it needs the package transformers only.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError, MissingExtraError
from midstep.data.text.json_values import parse_json

POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
LONGEST = 256
"""Tokens of a text that the model reads, if its settings do not say."""


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
        raise MissingExtraError.of("transformers", "hf")


def _load_model(folder: Path, device: str) -> tuple[Any, Any]:
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        raise MissingExtraError.of("transformers", "hf") from None
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
