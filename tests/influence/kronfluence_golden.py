"""Blocks that kronfluence itself computed, kept so that its package need not be installed.

Written by `python -m tests.influence.kronfluence_golden` in an environment of its own that has
kronfluence; the folder `tests` that the package puts beside itself has to go there, since it hides
this one. Models and batches follow from formulas alone; no random stream has a part in them.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from midstep.influence.gradients.sequences import SequenceBatch
from midstep.models.causal_lm import CausalLM, CausalLMConfig

KEPT = Path(__file__).parent / "golden" / "kronfluence_identity.json"
CASES: dict[str, dict[str, Any]] = {
    "rotary, RMSNorm, grouped queries": {
        "positions": "rotary", "norm": "rms", "bias": False, "tied": True,
    },
    "learned positions, LayerNorm, biases": {
        "positions": "learned", "norm": "layer", "bias": True, "tied": False,
    },
}  # fmt: skip


def model_of(case: str) -> CausalLM:
    """A float32 model whose weights are sines of their places."""
    config = CausalLMConfig(
        vocab_size=23, width=8, layers=2, heads=4, kv_heads=2, context=16, **CASES[case]
    )
    model = CausalLM(config)
    with torch.no_grad():
        for number, each in enumerate(model.parameters()):
            places = torch.arange(each.numel(), dtype=torch.float64).view_as(each)
            waves = 0.5 * torch.sin(1.3 * places + 0.7 * number)
            each.copy_(waves + 1 if each.dim() == 1 and number % 2 else waves)
    return model.eval()


def batch_of(count: int, shift: int) -> SequenceBatch:
    """Sequences of 5 to 10 tokens, padded on the right."""
    ids = torch.zeros(count, 10, dtype=torch.long)
    response, attention = torch.zeros_like(ids), torch.zeros_like(ids)
    for row in range(count):
        length = 5 + (row * 3 + shift) % 6
        span = torch.arange(length)
        ids[row, :length] = (7 * span * span + 3 * span + 5 * row + shift) % 23
        attention[row, :length] = 1
        response[row, 1 + row % 3 : length] = 1
    return SequenceBatch(ids, response, attention)


def update_and_evaluation() -> tuple[SequenceBatch, SequenceBatch]:
    """U and E of every case."""
    return batch_of(5, 1), batch_of(4, 2)


def kept_blocks() -> dict[str, torch.Tensor]:
    """[nE, nU] by case, as kronfluence gave them."""
    told = json.loads(KEPT.read_text())["blocks"]
    return {case: torch.tensor(block, dtype=torch.float64) for case, block in told.items()}


def main() -> None:
    """Compute the blocks with kronfluence and keep them."""
    from benchmarks.influence.kronfluence_block import identity_block

    update, evaluation = update_and_evaluation()
    blocks = {case: identity_block(model_of(case), update, evaluation).tolist() for case in CASES}
    made_with = {name: metadata.version(name) for name in ("kronfluence", "torch")}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps({"made_with": made_with, "blocks": blocks}, indent=1) + "\n")


if __name__ == "__main__":
    main()
