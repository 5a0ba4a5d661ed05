"""What the exact kernel of an AdamW step costs, against a plain pass, a batch-1 loop and libraries.

GPT-2-small shape, two threads; blocks take turns in one process. Of each block the wall time, the
processor time and the share of the machine that others took are measured: where that share is above
5 %, ratios are of processor time, because threads that wait for one that was pushed aside make wall
times meaningless. `OMP_WAIT_POLICY=passive` keeps waiting threads from counting as busy there.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import torch

from benchmarks.figures import Figure
from benchmarks.influence_memory import measured
from benchmarks.influence_peers import Peer, peers
from benchmarks.influence_work import Work, gpt2_small

__all__ = ["figures"]

SEQUENCES = 8
"""Of U and of E."""
LENGTHS = (128, 256)
"""Tokens of a sequence; libraries are compared at the first."""
ROUNDS = 2
CALM = 0.05
"""Share of the machine that others may take before wall times say nothing."""
BARS = {"resident": 1.35, "bounded": 1.7}


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one block took."""

    wall_s: float
    processor_s: float
    others: float
    """Share of the machine's time that went elsewhere."""


def spent(work: Callable[[], object]) -> Spent:
    """Run it once and look at both clocks."""
    gc.collect()
    wall, own, all_ = time.perf_counter(), time.process_time(), _busy_s()
    work()
    wall, own = time.perf_counter() - wall, time.process_time() - own
    others = max(0.0, _busy_s() - all_ - own) / (wall * (psutil.cpu_count() or 1))
    return Spent(wall_s=wall, processor_s=own, others=others)


def _busy_s() -> float:
    """Processor seconds that the whole machine has used so far."""
    times: Any = psutil.cpu_times()
    return float(sum(times[:3]) + getattr(times, "irq", 0.0) + getattr(times, "softirq", 0.0))


def speed(tokens: int, *, with_peers: bool) -> Iterator[Figure]:
    """Ratios to a plain pass, to the loop, and to others on the same block."""
    work = Work(gpt2_small(tokens), SEQUENCES)
    jobs: dict[str, Callable[[], object]] = {
        "plain": work.plain,
        "resident": lambda: work.kernel(algorithm="sweep", mode="resident"),
        "bounded": lambda: work.kernel(algorithm="sweep", mode="bounded"),
        "loop": work.loop,
    }
    work.kernel(algorithm="sweep", mode="bounded")  # proofs are made once a model
    took: dict[str, list[Spent]] = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            took[name].append(spent(job))
    size = f"{SEQUENCES} + {SEQUENCES} × {tokens} tokens"
    for name, bar in BARS.items():
        title = f"influence: {name} sweep, against a plain pass, {size}"
        yield ratio(title, took[name], took["plain"], bar)
    for name in BARS:
        title = f"influence: {name} sweep, against the batch-1 loop, {size}"
        yield ratio(title, took[name], took["loop"], 0.75)
    for peer in peers(work) if with_peers else ():
        yield against(peer, size)


def against(peer: Peer, size: str) -> Figure:
    """The resident sweep over a library on the same block, or why that one failed."""
    ours, theirs = [], []
    try:
        theirs.append(spent(peer.theirs))
    except (RuntimeError, NotImplementedError, ValueError, AttributeError) as error:
        reason = str(error).split("\n", maxsplit=1)[0][:80]
        return Figure(
            name=f"influence: {peer.name}", value=float("nan"), unit="×", note=f"fails: {reason}"
        )
    ours.append(spent(peer.ours))  # what fails here is ours, and is not hidden
    for _ in range(ROUNDS - 1):
        theirs.append(spent(peer.theirs))
        ours.append(spent(peer.ours))
    return ratio(f"influence: resident sweep, against {peer.name}, {size}", ours, theirs, 1.0)


def ratio(name: str, over: list[Spent], under: list[Spent], bar: float) -> Figure:
    """Median over the rounds, by wall time where the machine was calm."""
    others = max(each.others for each in [*over, *under])
    wall, own = (_ratios(over, under, clock) for clock in ("wall_s", "processor_s"))
    used = wall if others <= CALM else own
    middle = [statistics.median(each.wall_s for each in side) for side in (over, under)]
    clock = "wall" if others <= CALM else "processor"
    note = (
        f"by {clock} time (wall {statistics.median(wall):.2f}, processor "
        f"{statistics.median(own):.2f}); {middle[0]:.1f} s against {middle[1]:.1f} s with "
        f"{others:.0%} of the machine taken by others at most"
    )
    return Figure(
        name=name, value=statistics.median(used), unit="×", low=min(used), high=max(used),
        bar=bar, note=note,
    )  # fmt: skip


def _ratios(over: list[Spent], under: list[Spent], clock: str) -> list[float]:
    return [getattr(a, clock) / getattr(b, clock) for a, b in zip(over, under, strict=True)]


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


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield from memory()
        for number, tokens in enumerate(LENGTHS):
            yield from speed(tokens, with_peers=number == 0)
    finally:
        torch.set_num_threads(threads)
