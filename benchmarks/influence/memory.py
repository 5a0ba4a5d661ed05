"""Peak memory of one bounded sweep, in a process of its own.

python -m benchmarks.influence.memory 32

In one process the next sweep would be given the pages that the last one left. glibc is told to hand
every larger block back (`MALLOC_MMAP_THRESHOLD_`), so that what is resident is what is held.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

__all__ = ["PeakMemory", "measured"]

TOKENS = 32
MICROBATCH = 8


class PeakMemory:
    """The largest resident memory of this process while a block runs, above what it began with."""

    def __init__(self) -> None:
        self._process, self._done = psutil.Process(), threading.Event()
        self.most_bytes = 0

    @contextmanager
    def watching(self) -> Iterator[PeakMemory]:
        """Sample every 2 ms in a thread of its own."""
        gc.collect()
        base = self._process.memory_info().rss

        def sample() -> None:
            while not self._done.wait(0.002):
                self.most_bytes = max(self.most_bytes, self._process.memory_info().rss - base)

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()


def measured(count: int) -> dict[str, Any]:
    """Peak and parts in bytes for `count` sequences on either side, measured in a new process."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.influence.memory", str(count)],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def main(count: int) -> None:
    """Measure here and print it."""
    import torch

    from benchmarks.influence.setup import Work
    from midstep.models.causal_lm import CausalLMConfig

    torch.set_num_threads(2)
    config = CausalLMConfig(
        vocab_size=4_000, width=256, layers=6, heads=8, context=TOKENS, positions="learned",
        norm="layer", bias=True, tied=True,
    )  # fmt: skip
    Work(config, 2).kernel(algorithm="sweep", mode="bounded")  # what is loaded once is loaded now
    work = Work(config, count)
    parameters = sum(each.numel() for each in work.model.parameters())
    with tempfile.TemporaryDirectory() as folder, PeakMemory().watching() as peak:
        work.kernel(algorithm="sweep", mode="bounded", microbatch=MICROBATCH, spill=Path(folder))
    tokens = 2 * count * TOKENS
    parts = {
        "peak": peak.most_bytes,
        "kernel": 2 * count * count * 8,
        # Inputs and output gradients of the four linear maps of a block, and its two norms.
        "layer": tokens * 18 * config.width * 4,
        "gradients": 2 * count * parameters * 4,
    }
    print(json.dumps(parts))


if __name__ == "__main__":
    main(int(sys.argv[1]))
