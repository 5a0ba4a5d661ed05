"""Times of the exact kernel beside a plain pass, a batch-1 loop and libraries, in one process.

python -m benchmarks.influence.speed 128 answer.jsonl [--peers]

Run by `bench_influence` in the environment that has the libraries. Blocks take turns; ratios are of
wall time, each with the share of the machine that others took while it was measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.figures import Figure
from benchmarks.influence.peers import PEERS, Peer, not_measured
from benchmarks.influence.setup import Work, gpt2_small

__all__ = ["BARS", "LOOP_BAR", "SEQUENCES", "size_of"]

SEQUENCES = 8
"""Of U and of E."""
ROUNDS = 3
SLOW_ROUNDS = 2
"""Of the loop and of libraries, which take longer."""
BARS = {"resident": 1.35, "bounded": 1.7}
LOOP_BAR = 0.75
CALM = 0.05
"""Share of the machine that others may take before a figure is marked as disturbed."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one block took."""

    wall_s: float
    others: float
    """Share of the machine's time that went elsewhere."""


def spent(work: Callable[[], object]) -> Spent:
    """Run it once and look at the clocks."""
    gc.collect()
    wall, own, all_ = time.perf_counter(), time.process_time(), _busy_s()
    work()
    wall, own = time.perf_counter() - wall, time.process_time() - own
    others = max(0.0, _busy_s() - all_ - own) / (wall * (psutil.cpu_count() or 1))
    return Spent(wall_s=wall, others=others)


def _busy_s() -> float:
    """Processor seconds that the whole machine has used so far."""
    times: Any = psutil.cpu_times()
    return float(sum(times[:3]) + getattr(times, "irq", 0.0) + getattr(times, "softirq", 0.0))


def size_of(tokens: int) -> str:
    """How a figure's name says what was computed."""
    return f"{SEQUENCES} + {SEQUENCES} × {tokens} tokens"


def speed(work: Work, tokens: int) -> Iterator[Figure]:
    """Ratios to a plain pass and to the batch-1 loop."""
    jobs: dict[str, Callable[[], object]] = {
        "plain": work.plain,
        "resident": lambda: work.kernel(algorithm="sweep", mode="resident"),
        "bounded": lambda: work.kernel(algorithm="sweep", mode="bounded"),
        "loop": work.loop,
    }
    work.kernel(algorithm="sweep", mode="bounded")  # proofs are made once a model
    took: dict[str, list[Spent]] = {name: [] for name in jobs}
    for number in range(ROUNDS):
        for name, job in jobs.items():
            if name != "loop" or number < SLOW_ROUNDS:
                took[name].append(spent(job))
    for name, bar in BARS.items():
        title = f"influence: {name} sweep, against a plain pass, {size_of(tokens)}"
        yield ratio(title, took[name], took["plain"], bar)
    for name in BARS:
        title = f"influence: {name} sweep, against the batch-1 loop, {size_of(tokens)}"
        yield ratio(title, took[name], took["loop"], LOOP_BAR)


def against(peer: Peer, work: Work, tokens: int) -> Figure:
    """The resident sweep over a library on the same block, or why that one failed."""
    ours, theirs = [], []
    try:
        theirs.append(spent(lambda: peer.theirs(work)))
    except Exception as error:  # noqa: BLE001 - a library fails in its own ways; the row says how
        return not_measured(peer, size_of(tokens), str(error) or type(error).__name__)
    ours.append(spent(lambda: peer.ours(work)))  # what fails here is ours, and is not hidden
    for _ in range(SLOW_ROUNDS - 1):
        theirs.append(spent(lambda: peer.theirs(work)))
        ours.append(spent(lambda: peer.ours(work)))
    return ratio(peer.title(size_of(tokens)), ours, theirs, peer.bar)


def ratio(name: str, over: Sequence[Spent], under: Sequence[Spent], bar: float) -> Figure:
    """Median over the rounds that both took, with the smallest and the largest."""
    ratios = [a.wall_s / b.wall_s for a, b in zip(over, under, strict=False)]
    middle = [statistics.median(each.wall_s for each in side) for side in (over, under)]
    best = min(each.wall_s for each in over) / min(each.wall_s for each in under)
    others = max(each.others for each in [*over, *under])
    disturbed = "" if others <= CALM else "DISTURBED: "
    return Figure(
        name=name, value=statistics.median(ratios), unit="×", low=min(ratios), high=max(ratios),
        bar=bar,
        note=(
            f"{middle[0]:.1f} s against {middle[1]:.1f} s, best against best {best:.2f}; "
            f"{disturbed}others took {others:.0%} of the machine at most"
        ),
    )  # fmt: skip


def main(tokens: int, answer: Path, *, with_peers: bool) -> None:
    """Measure and write a figure a line."""
    import torch

    torch.set_num_threads(2)
    work = Work(gpt2_small(tokens), SEQUENCES)
    with answer.open("w", encoding="utf-8") as lines:
        for figure in speed(work, tokens):
            lines.write(json.dumps(asdict(figure)) + "\n")
        lines.flush()
        for peer in PEERS if with_peers else ():
            lines.write(json.dumps(asdict(against(peer, work, tokens))) + "\n")
            lines.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", type=int)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--peers", action="store_true")
    asked = parser.parse_args()
    main(asked.tokens, asked.answer, with_peers=asked.peers)
