"""Seeds of the global generators."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from midstep.core import set_all_seeds
from midstep.core.errors import ConfigError


@pytest.mark.parametrize("seed", [0, 42, 2**40])
def test_equal_seeds_give_equal_draws_of_every_generator(seed: int) -> None:
    draws = []
    for each in (seed, seed, seed + 1):
        set_all_seeds(each)
        draws.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert draws[0] == draws[1]
    assert all(a != b for a, b in zip(draws[0], draws[2], strict=True))


def test_a_wrong_seed_is_refused_before_anything_is_seeded() -> None:
    before = random.getstate()
    for seed in (-1, 1.5, True):
        with pytest.raises(ConfigError, match="seed must be a whole number"):
            set_all_seeds(seed)  # type: ignore[arg-type]
    assert random.getstate() == before


def test_importing_core_loads_no_torch() -> None:
    code = "import midstep.core, sys; midstep.core.set_all_seeds; print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
