"""Checkpoints of language models: folders of midstep's small model, or of transformers.

A folder of midstep has `config.json` (model and tokenizer) and `model.safetensors`. With an
optimizer it also has `optimizer.json` and `optimizer.safetensors`, the state by parameter name.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, MissingExtraError, StorageError
from midstep.core.files.atomic_folders import Chunks, add_folder
from midstep.influence.gradients.model_checks import check_causal_lm
from midstep.influence.optimizers.optimizer_files import serialize_optimizer
from midstep.influence.sampling.tokenizers import (
    CharacterTokenizer,
    HuggingFaceTokenizer,
    Tokenizer,
)
from midstep.models.causal_lm import CausalLM, CausalLMConfig

FORMAT = "midstep.causal_lm/1"
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def save_checkpoint(
    path: str | os.PathLike[str],
    model: CausalLM,
    tokenizer: CharacterTokenizer,
    optimizer: torch.optim.Optimizer | None = None,
) -> Path:
    """Write the small language model, and the state of its optimizer, as a new folder."""
    from safetensors.torch import save

    config = {
        "format": FORMAT,
        "model": asdict(model.config),
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "tokenizer": tokenizer.describe(),
    }
    # A tied head is one parameter, which `named_parameters` lists once; safetensors refuses two.
    weights = {name: one.detach().contiguous() for name, one in model.named_parameters()}
    files: dict[str, Chunks] = {
        "config.json": [(strict_json.dumps(config) + "\n").encode()],
        "model.safetensors": [save(weights)],
    }
    if optimizer is not None:
        files |= serialize_optimizer(optimizer, model)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return add_folder(path, files)


def load_checkpoint(
    path: str | os.PathLike[str], *, device: str = "cpu", dtype: str | None = None
) -> tuple[nn.Module, Tokenizer]:
    """Model and tokenizer of a local folder. Nothing is downloaded.

    Args:
        path: the folder.
        device: where the model goes.
        dtype: float64, float32 or bfloat16; None: as saved.
    """
    folder = Path(path)
    config = _read_config(folder)
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}")
    if config.get("format") == FORMAT:
        model, tokenizer = _load_built_in(folder, config)
        return model.to(device=device, dtype=DTYPES[dtype] if dtype else None), tokenizer
    if "model_type" in config:
        return _load_hugging_face(folder, device, dtype)
    raise FormatError(
        f"{folder} is not a checkpoint of midstep or transformers: its config.json "
        "has no 'format' and no 'model_type'"
    )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = strict_json.loads((folder / "config.json").read_bytes())
    except OSError as error:
        raise StorageError(
            f"cannot read {folder / 'config.json'}: {error.strerror}; give a checkpoint's folder"
        ) from error
    if not isinstance(config, dict):
        raise FormatError(f"{folder / 'config.json'} does not hold a JSON object")
    return config


def _load_built_in(folder: Path, config: dict[str, Any]) -> tuple[CausalLM, CharacterTokenizer]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        model = CausalLM(CausalLMConfig(**config["model"])).to(DTYPES[config["dtype"]])
        weights = load_file(folder / "model.safetensors")
    except (KeyError, TypeError, OSError, SafetensorError) as error:
        raise FormatError(f"checkpoint {folder} cannot be read: {error}") from None
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        different = sorted(parameters.keys() ^ weights.keys())[0]
        raise FormatError(f"checkpoint {folder} does not match its config.json: {different!r}")
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != weights[name].shape:
                raise FormatError(f"checkpoint {folder}: {name!r} has another shape than its model")
            parameter.copy_(weights[name])
    return model, CharacterTokenizer.from_description(config["tokenizer"])


def _load_hugging_face(folder: Path, device: str, dtype: str | None) -> tuple[nn.Module, Tokenizer]:
    try:
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingExtraError.for_library("transformers", "hf") from None
    torch_dtype = DTYPES[dtype] if dtype else "auto"
    try:
        # Local safetensors only: pickled weights can run code, and no download may happen here.
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, dtype=torch_dtype
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise FormatError(
            f"transformers cannot load {folder}: {str(error).splitlines()[0]}; save model and "
            "tokenizer there with save_pretrained (safetensors; pickled weights are not read)"
        ) from None
    placed: nn.Module = model.to(device)
    # Before sampling: a masked language model would fail there without a reason.
    vocabulary = int(getattr(model.config, "vocab_size", None) or 4)
    probe_ids = torch.arange(4, device=device) % vocabulary
    check_causal_lm(placed, torch.stack([probe_ids, probe_ids.flip(0)]), {})
    return placed, HuggingFaceTokenizer(tokenizer)
