"""Which group of parameters a name belongs to, for the coverage report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["GROUPS", "groups_of"]

GROUPS = (
    "attention_qkv",
    "attention_out",
    "mlp",
    "embedding",
    "head",
    "norm",
    "bias",
    "position",
    "adapter",
)
_WORDS = (
    ("adapter", r"lora_|adapter|ia3_"),
    ("norm", r"(^|[._])(ln|norm|layernorm|rmsnorm)|norm(\d|$|[._])|(^|\.)ln_"),
    ("position", r"wpe|position|(^|\.)places"),
    ("attention_qkv", r"q_proj|k_proj|v_proj|c_attn|qkv|query|(^|\.)key(\.|$)|(^|\.)value(\.|$)"),
    (
        "attention_out",
        r"o_proj|out_proj|attn\.c_proj|attention\.(out|dense|o)|self_attention\.dense",
    ),
)


def groups_of(model: nn.Module, names: Sequence[str], head: nn.Module | None) -> Mapping[str, str]:
    """The group of each parameter; a weight that is also the head's counts as head."""
    parameters = dict(model.named_parameters())
    tables = {
        id(each)
        for module in model.modules()
        if isinstance(module, nn.Embedding)
        for each in module.parameters(recurse=False)
    }
    heads = {id(each) for each in head.parameters()} if head is not None else set()
    return {name: _group(name, parameters[name], tables, heads) for name in names}


def _group(name: str, parameter: Tensor, tables: set[int], heads: set[int]) -> str:
    lower = name.lower()
    for group, words in _WORDS[:2]:
        if re.search(words, lower):
            return group
    if lower.endswith("bias"):
        return "bias"
    if id(parameter) in heads or "lm_head" in lower:
        return "head"
    for group, words in _WORDS[2:]:
        if re.search(words, lower):
            return group
    return "embedding" if id(parameter) in tables else "mlp"
