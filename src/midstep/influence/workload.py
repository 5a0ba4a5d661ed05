"""The sizes that the planner needs, read off a model and its batches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from torch import nn

from midstep.influence.planner import Workload

if TYPE_CHECKING:
    from midstep.influence.anatomy import Anatomy
    from midstep.influence.passes import Side

__all__ = ["free_bytes_on", "workload_of"]


def workload_of(
    anatomy: Anatomy,
    trained: dict[int, str],
    update: Side,
    evaluation: Side | None,
    *,
    wants_kernel: bool,
    norm_first: bool,
) -> Workload:
    """The sizes of this computation."""
    model, head = anatomy.model, anatomy.head
    counted = [each for each in model.parameters() if id(each) in trained]
    tables = {
        id(each)
        for module in model.modules()
        if isinstance(module, nn.Embedding) and (head is None or module.weight is not head.weight)
        for each in module.parameters(recurse=False)
    }
    through = sum(each.numel() for each in model.parameters() if id(each) not in tables)
    width, vocabulary = _head_sizes(head)
    return Workload(
        sequences_u=len(update),
        sequences_e=0 if evaluation is None else len(evaluation),
        tokens_u=_tokens(update),
        tokens_e=0 if evaluation is None else _tokens(evaluation),
        parameters=sum(each.numel() for each in counted),
        parameters_all=through,
        layer_values=_values(model, trained, head),
        block_values=max((_values(each, trained, head) for each in anatomy.blocks), default=0),
        width=width,
        blocks=len(anatomy.blocks),
        vocabulary=vocabulary,
        item_bytes=counted[0].element_size(),
        wants_kernel=wants_kernel,
        norm_first=norm_first,
        splittable=bool(anatomy.blocks) and head is not None,
    )


def _tokens(side: Side) -> int:
    return sum(each.input_ids.numel() for each in side.microbatches)


def _head_sizes(head: nn.Module | None) -> tuple[int, int]:
    return (head.in_features, head.out_features) if isinstance(head, nn.Linear) else (0, 0)


def _values(module: nn.Module, trained: dict[int, str], head: nn.Module | None) -> int:
    """Values a token leaves at the recorded modules; for matrices both sides are kept."""
    total = 0
    for part in module.modules():
        for each in part.parameters(recurse=False):
            if id(each) in trained and part is not head:
                total += sum(each.shape) if each.dim() == 2 and not _table(part) else each.shape[-1]
    return total


def _table(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding)


def free_bytes_on(device: torch.device) -> int:
    """Memory that is free where the model stands."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")
