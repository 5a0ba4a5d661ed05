"""Batches on disk: a folder with strict JSON and safetensors, written atomically.

Token values are stored as flat tensors with lengths, because responses differ in length.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from midstep.core.errors import ConfigError, FormatError
from midstep.influence.array_folders import ArrayFolder
from midstep.influence.fingerprints import BatchFingerprint
from midstep.influence.sampling.generated_batch import GeneratedBatch, SequenceRecord

_FOLDER = ArrayFolder(
    format_tag="midstep.generated_batch/1",
    json_name="batch.json",
    array_name="tensors.safetensors",
)


def save_batch(batch: GeneratedBatch, path: str | os.PathLike[str]) -> Path:
    """Write `batch` as the new folder `path`. An existing folder is an error."""
    return _FOLDER.write(
        path,
        _tensors(batch),
        lambda digest: {
            "tensors": {"file": _FOLDER.array_name, "blake2b": digest},
            "fingerprint": asdict(batch.fingerprint) if batch.fingerprint else None,
            "pad_id": batch.pad_id,
            "diagnostics": batch.diagnostics,
            "records": [record.to_json() for record in batch.records],
        },
    )


def _digest_in(description: Mapping[str, Any]) -> object:
    entry = description.get("tensors")
    return entry.get("blake2b") if isinstance(entry, Mapping) else None


def _tensors(batch: GeneratedBatch) -> dict[str, Tensor]:
    records = batch.records
    # One length for all columns: NaN fills the responses that the model did not draw.
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
        expected: the checkpoint that will use it; a batch of another one is an error.

    Raises:
        FormatError: the files are damaged or of another format.
        ConfigError: the batch belongs to another checkpoint.
    """
    folder = Path(path)
    description, tensors = _FOLDER.read(folder, _digest_in)
    try:
        batch = GeneratedBatch(
            records=tuple(_records(description["records"], tensors, folder)),
            pad_id=int(description["pad_id"]),
            fingerprint=BatchFingerprint(**description["fingerprint"])
            if description["fingerprint"]
            else None,
            diagnostics=description["diagnostics"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder} is not a complete batch: {error!r}") from None
    if expected is None or batch.fingerprint is None:
        return batch
    difference = batch.fingerprint.difference(expected)
    if difference is not None:
        raise ConfigError(
            f"the batch {folder} was made with another checkpoint: {difference}. Load that "
            "checkpoint, sample a new batch, or (with the same tokenizer) pass rescore: true"
        )
    return batch


def _records(
    descriptions: list[dict[str, Any]], tensors: dict[str, Tensor], folder: Path
) -> list[SequenceRecord]:
    prompts = _ragged(tensors["prompt_tokens"], tensors["prompt_lengths"])
    columns = {
        name: _ragged(tensors[name], tensors["response_lengths"])
        for name in ("response_tokens", "logprobs", "entropies", "sampler_logprobs")
    }
    if len(descriptions) != len(prompts):
        raise FormatError(
            f"{folder} describes {len(descriptions)} sequences, but holds {len(prompts)}"
        )
    was_drawn = tensors["was_drawn"].tolist()
    return [
        SequenceRecord.from_json(
            one,
            prompt_tokens=prompts[at],
            response_tokens=columns["response_tokens"][at],
            logprobs=columns["logprobs"][at],
            entropies=columns["entropies"][at],
            sampler_logprobs=columns["sampler_logprobs"][at] if was_drawn[at] else None,
        )
        for at, one in enumerate(descriptions)
    ]


def _ragged(flat: Tensor, lengths: Tensor) -> list[tuple[Any, ...]]:
    values, ends = flat.tolist(), accumulate(lengths.tolist(), initial=0)
    return [tuple(values[start:end]) for start, end in pairwise(ends)]
