"""A sentence encoder from a local folder: a transformer, its tokens pooled, at length 1.

Read is what sentence-transformers writes; transformers alone is enough to run it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core import strict_json
from midstep.core.errors import DatasetError, FormatError, MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray


POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
LONGEST = 256
"""Tokens of a text that are read, unless the model says otherwise."""


class SentenceEncoder:
    """An `Encoder` over a transformer in a folder.

    Args:
        folder: of the model.
        batch_size: texts encoded together; those of like length are put together.
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
        """One row a text, at length 1."""
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
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
    """That there is a model in the folder which can be run here; it is not loaded."""
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
    """How tokens become one vector; the mean where nothing is said."""
    said = _read_settings(folder / "1_Pooling" / "config.json")
    used = [key for key, value in said.items() if key.startswith("pooling_mode_") and value is True]
    if not used:
        return "mean"
    if len(used) > 1 or used[0] not in POOLINGS:
        raise DatasetError(
            f"{folder} pools its tokens by {', '.join(used)}; only the mean and the first token "
            "are known here: pass the model's own encode function as the encoder"
        )
    return POOLINGS[used[0]]


def _read_settings(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        settings = strict_json.loads(path.read_bytes())
    except FormatError as error:
        raise DatasetError(f"{path} is {error}") from None
    return settings if isinstance(settings, dict) else {}
