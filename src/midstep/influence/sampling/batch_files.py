"""Batches on disk: a folder with strict JSON and safetensors, there at once or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.core.folders import add_folder
from midstep.influence.sampling.batch import BatchFingerprint, GeneratedBatch
from midstep.influence.sampling.records import SequenceRecord

__all__ = ["load_batch", "save_batch"]

FORMAT = "midstep.generated_batch/1"
_JSON, _TENSORS = "batch.json", "tensors.safetensors"


def save_batch(batch: GeneratedBatch, path: str | os.PathLike[str]) -> Path:
    """Write `batch` as the folder `path`, which must not be there yet."""
    from safetensors.torch import save

    data = save(_tensors(batch))
    told = {
        "format": FORMAT,
        "tensors": {"file": _TENSORS, "blake2b": _digest(data)},
        "fingerprint": asdict(batch.fingerprint) if batch.fingerprint else None,
        "pad_id": batch.pad_id,
        "diagnostics": batch.diagnostics,
        "records": [record.described() for record in batch.records],
    }
    text = (strict_json.dumps(told) + "\n").encode()
    return add_folder(path, {_TENSORS: [data], _JSON: [text]})


def _tensors(batch: GeneratedBatch) -> dict[str, Tensor]:
    records = batch.records
    nothing = [float("nan")]
    return {
        "prompt_tokens": _flat([one.prompt_tokens for one in records], torch.int64),
        "prompt_lengths": torch.tensor([len(one.prompt_tokens) for one in records]),
        "response_tokens": _flat([one.response_tokens for one in records], torch.int64),
        "response_lengths": torch.tensor([len(one.response_tokens) for one in records]),
        "logprobs": _flat([one.logprobs for one in records], torch.float64),
        "entropies": _flat([one.entropies for one in records], torch.float64),
        "sampler_logprobs": _flat(
            [one.sampler_logprobs or nothing * len(one.response_tokens) for one in records],
            torch.float64,
        ),
        "was_drawn": torch.tensor([one.sampler_logprobs is not None for one in records]),
    }


def _flat(rows: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    return torch.tensor([value for row in rows for value in row], dtype=dtype)


def load_batch(
    path: str | os.PathLike[str], *, expected: BatchFingerprint | None = None
) -> GeneratedBatch:
    """Read a batch that `save_batch` wrote.

    Args:
        path: its folder.
        expected: the checkpoint it is to be used with; another one is refused.

    Raises:
        FormatError: the files are damaged or of another format.
        ConfigError: the batch belongs to another checkpoint.
    """
    folder = Path(path)
    told, tensors = _read(folder)
    try:
        batch = GeneratedBatch(
            records=tuple(_records(told["records"], tensors, folder)),
            pad_id=int(told["pad_id"]),
            fingerprint=BatchFingerprint(**told["fingerprint"]) if told["fingerprint"] else None,
            diagnostics=told["diagnostics"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder} is no whole batch: {error!r}") from None
    _check_fingerprint(batch, expected, folder)
    return batch


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        told = strict_json.loads((folder / _JSON).read_bytes())
        data = (folder / _TENSORS).read_bytes()
    except OSError as error:
        raise StorageError(
            f"cannot read the batch {folder}: {error.strerror}; give a folder that save_batch made"
        ) from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise FormatError(f"{folder / _JSON} is not a batch of format {FORMAT}")
    kept = told.get("tensors")
    if not isinstance(kept, dict) or _digest(data) != kept.get("blake2b"):
        raise FormatError(
            f"{folder / _TENSORS} is damaged: its hash differs; sample the batch again"
        )
    try:
        return told, load(data)
    except SafetensorError as error:
        raise FormatError(f"{folder / _TENSORS} cannot be read: {error}") from None


def _records(
    described: list[dict[str, Any]], tensors: dict[str, Tensor], folder: Path
) -> list[SequenceRecord]:
    prompts = _ragged(tensors["prompt_tokens"], tensors["prompt_lengths"])
    columns = {
        name: _ragged(tensors[name], tensors["response_lengths"])
        for name in ("response_tokens", "logprobs", "entropies", "sampler_logprobs")
    }
    if len(described) != len(prompts):
        raise FormatError(f"{folder} tells of {len(described)} sequences and holds {len(prompts)}")
    drawn = tensors["was_drawn"].tolist()
    return [
        SequenceRecord.restored(
            one,
            prompt_tokens=prompts[at],
            response_tokens=columns["response_tokens"][at],
            logprobs=columns["logprobs"][at],
            entropies=columns["entropies"][at],
            sampler_logprobs=columns["sampler_logprobs"][at] if drawn[at] else None,
        )
        for at, one in enumerate(described)
    ]


def _ragged(flat: Tensor, lengths: Tensor) -> list[tuple[Any, ...]]:
    values, ends = flat.tolist(), accumulate(lengths.tolist(), initial=0)
    return [tuple(values[start:end]) for start, end in pairwise(ends)]


def _check_fingerprint(
    batch: GeneratedBatch, expected: BatchFingerprint | None, folder: Path
) -> None:
    if expected is None or batch.fingerprint is None:
        return
    difference = batch.fingerprint.difference(expected)
    if difference is not None:
        raise ConfigError(
            f"the batch {folder} was made with another checkpoint: {difference}. Load that "
            "checkpoint, sample a new batch, or (same tokenizer) let it be scored again: rescore"
        )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
