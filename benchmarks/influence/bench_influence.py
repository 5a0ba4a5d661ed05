"""What the exact kernel of an AdamW step costs, against a plain pass, a batch-1 loop and libraries.

GPT-2-small shape, two threads, torch's usual settings on all sides. kronfluence and opacus are in
an environment of their own, made here; everything that is compared runs in one process there.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.environments import NoEnvironment, environment
from benchmarks.figures import Figure
from benchmarks.influence.memory import measured
from benchmarks.influence.peers import PEERS, shown_reason

__all__ = ["figures"]

LENGTHS = (128, 256)
"""Tokens of a sequence; libraries are compared at the first."""
LIMIT_S = 3600
HERE = Path(__file__).resolve().parents[2]
PACKAGES = tuple(sorted(peer.package for peer in PEERS if peer.package is not None))


def memory() -> Iterator[Figure]:
    """Peak memory in mode bounded at 8, 32 and 128 sequences, borders on disk, beside its parts."""
    for count in (8, 32, 128):
        found = {name: value / 2**20 for name, value in measured(count).items()}
        yield Figure(
            name=f"influence: bounded sweep, peak memory at {count} + {count} sequences",
            value=found["peak"],
            unit="MiB",
            note=(
                f"one layer {found['layer']:.0f} MiB, K {found['kernel']:.2g}; batch × parameters "
                f"would be {found['gradients']:.0f}"
            ),
        )


def speed(python: Path, tokens: int, *, with_peers: bool) -> Iterator[Figure]:
    """The figures of one length, measured by a process of that Python."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "figures.jsonl"
        command = [str(python), "-m", "benchmarks.influence.speed", str(tokens), str(answer)]
        done = subprocess.run(
            [*command, "--peers"] if with_peers else command,
            cwd=HERE,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        if done.returncode != 0:
            raise RuntimeError(f"the measurement of {tokens} tokens failed:\n{done.stderr[-2000:]}")
        for line in answer.read_text(encoding="utf-8").splitlines():
            yield Figure(**json.loads(line))


def figures() -> Iterator[Figure]:
    """All figures of this module; a library that cannot be installed is a missed bar."""
    yield from memory()
    why = ""
    try:
        python = environment("influence", *PACKAGES)
    except NoEnvironment as error:
        python, why = Path(sys.executable), str(error)
    for number, tokens in enumerate(LENGTHS):
        for figure in speed(python, tokens, with_peers=number == 0):
            missing = why and math.isnan(figure.value)
            yield replace(figure, note=shown_reason(why)) if missing else figure
