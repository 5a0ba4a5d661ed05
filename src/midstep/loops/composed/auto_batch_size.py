"""`data.batch_size=auto`: the largest batch with which a loop's step fits into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from midstep.loops.batch_size import find_batch_size
from midstep.session.fit.default_step import move

if TYPE_CHECKING:
    import torch

    from midstep.data.sources.source_data import SourceData
    from midstep.loops.composed.loop_parts import LoopParts
    from midstep.loops.config.composed_config import ComposedConfig


def with_batch_size(composed: ComposedConfig, size: int) -> ComposedConfig:
    """The settings with the batch size in numbers, as they are recorded."""
    config = replace(composed.config, data=replace(composed.config.data, batch_size=size))
    resolved = {**composed.resolved, "data": {**composed.resolved["data"], "batch_size": size}}
    return replace(composed, config=config, resolved=resolved)


def largest_batch_size(parts: LoopParts, data: SourceData, device: torch.device) -> int:
    """Try steps of growing batches; weights, optimizer and generators stay as they were."""
    model, optimizer, dataset = parts.model.to(device), parts.optimizer, data.splits["train"]

    def try_step(size: int) -> None:
        batch = move(dataset.__getitems__(list(range(size))), device)
        model.train()
        result: Any = parts.training_step(model, batch)
        loss = result["loss"] if isinstance(result, Mapping) else result
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return find_batch_size(
        try_step, device=device, dataset_size=len(dataset), parts=[model, optimizer]
    )
