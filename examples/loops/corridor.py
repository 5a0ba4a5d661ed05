"""A small environment for the reinforcement learning examples: walk to the end of a corridor.

It has the interface of Gymnasium (`reset`, `step`) and its state can be saved, so a run that
declares it with `extra_state={"env": env}` is resumed and taken back exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

LENGTH, MOST_STEPS = 6, 20


class Corridor:
    """Positions 0 to 5. Action 1 walks right, 0 left; one move in ten slips. The end gives 1.

    Args:
        seed: of its own generator.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.position = self.moves = 0

    def reset(self) -> torch.Tensor:
        """Begin an episode near the start."""
        self.position, self.moves = int(self.rng.integers(2)), 0
        return self.observe()

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        """Observation, reward, and whether the episode is over."""
        direction = 1 if action == 1 else -1
        if self.rng.random() < 0.1:
            direction = -direction
        self.position = min(LENGTH - 1, max(0, self.position + direction))
        self.moves += 1
        is_at_end = self.position == LENGTH - 1
        return self.observe(), float(is_at_end) - 0.01, is_at_end or self.moves == MOST_STEPS

    def observe(self) -> torch.Tensor:
        """The position as a one-hot vector."""
        return torch.nn.functional.one_hot(torch.tensor(self.position), LENGTH).float()

    def state_dict(self) -> dict[str, Any]:
        """Position, moves, and the generator."""
        rng = self.rng.bit_generator.state
        return {"position": self.position, "moves": self.moves, "rng": rng}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state."""
        self.position, self.moves = state["position"], state["moves"]
        self.rng.bit_generator.state = state["rng"]
