"""Hard negatives: 100,000 pairs against 50,000 sources of 384 numbers, nothing missed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import numpy as np
import psutil
import torch

from benchmarks.figures import Figure
from midstep.data.build.build_config import quotas_for
from midstep.data.build.clustering import adjacent_clusters, nearest_clusters
from midstep.data.build.hard_negatives import mine_hard_negatives
from midstep.data.build.negative_tiers import MinedNegatives, MiningInputs, largest_scores
from midstep.data.exact_search import unit_rows
from midstep.data.ragged import Ragged

__all__ = ["figures", "random_field"]

PAIRS, SOURCES, WIDTH, CLUSTERS, NEGATIVES = 100_000, 50_000, 384, 200, 12
MARGIN = 0.95
CHECKED = 200
"""Pairs whose hardest negatives are found again by comparing with every source."""


def random_field(pairs: int = PAIRS, sources: int = SOURCES) -> MiningInputs:
    """Sources around centres, and questions near the source that answers them."""
    chance = np.random.default_rng(0)
    centres = unit_rows(chance.standard_normal((CLUSTERS, WIDTH), dtype=np.float32))
    noise = chance.standard_normal((sources, WIDTH), dtype=np.float32)
    source_vectors = unit_rows(centres[chance.integers(CLUSTERS, size=sources)] + 0.05 * noise)
    answer = chance.integers(sources, size=pairs)
    noise = chance.standard_normal((pairs, WIDTH), dtype=np.float32)
    questions = unit_rows(source_vectors[answer] + 0.03 * noise)
    index = np.stack([np.arange(pairs), answer], axis=1)
    return MiningInputs(
        questions=questions,
        sources=source_vectors,
        pair_index=index,
        pair_cluster=nearest_clusters(questions, centres),
        source_cluster=nearest_clusters(source_vectors, centres),
        adjacent=adjacent_clusters(centres, 3),
        positives=Ragged(np.arange(pairs + 1), answer),
        threshold=0.05,
    )


def _recall(field: MiningInputs, made: MinedNegatives) -> float:
    """Of the hardest of tiers 1 to 3 in plain float64, the share that was found."""
    wanted = found = 0
    sources = field.sources.astype(np.float64)
    pairs = np.linspace(0, len(field.pair_index) - 1, CHECKED).astype(np.int64)
    limits = largest_scores(field, pairs, MARGIN)
    for pair, limit in zip(pairs, limits, strict=True):
        score = sources @ field.questions[field.pair_index[pair, 0]].astype(np.float64)
        allowed = score <= limit
        allowed[field.positives[int(field.pair_index[pair, 0])]] = False
        own = field.pair_cluster[pair]
        near = np.isin(field.source_cluster, field.adjacent[own])
        inside = field.source_cluster == own
        rest = ~inside & ~near & (score >= field.threshold)
        for tier, members in ((1, inside), (2, near), (3, rest)):
            chosen = made.negatives[pair][made.tiers[pair] == tier]
            hardest = np.sort(score[members & allowed])[::-1][: len(chosen)]
            wanted += len(chosen)
            found += int(np.count_nonzero(score[chosen] >= hardest.min(initial=2) - 1e-6))
    return found / wanted


def _product_s(field: MiningInputs, sample: int = 2048) -> float:
    """Seconds of processor time for nothing but all scores, from a sample of the questions."""
    questions, sources = torch.from_numpy(field.questions), torch.from_numpy(field.sources)
    begun = time.process_time()
    for start in range(0, sample, 512):
        torch.mm(questions[start : start + 512], sources.T)
    return (time.process_time() - begun) * PAIRS / sample


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    field = random_field()
    load, product = os.getloadavg()[0], _product_s(field)
    before = psutil.Process().memory_info().rss
    most = 0

    def watch(done: int) -> None:
        nonlocal most
        del done
        most = max(most, psutil.Process().memory_info().rss - before)

    cpu, begun = time.process_time(), time.perf_counter()
    made = mine_hard_negatives(
        field,
        np.arange(PAIRS),
        np.arange(SOURCES),
        quotas=quotas_for(NEGATIVES),
        margin=MARGIN,
        seed=0,
        advance=watch,
    )
    took, cpu = time.perf_counter() - begun, time.process_time() - cpu
    yield Figure(
        name="negatives for 100,000 pairs among 50,000 sources, D = 384",
        value=took,
        unit="s",
        bar=360,
        note=(
            f"{torch.get_num_threads()} threads, {cpu:.0f} s of processor time, of which the "
            f"products alone {product:.0f}; load {load:.1f} before; "
            f"{int((made.negatives >= 0).all(axis=1).sum()):,} pairs with all {NEGATIVES}"
        ),
    )
    yield Figure(
        name="… recall of tiers 1 to 3 against every source in float64",
        value=_recall(field, made),
        unit="",
        bar=1,
        at_least=True,
        note=f"{CHECKED} pairs",
    )
    yield Figure(
        name="… memory beyond the vectors",
        value=most / 1e6,
        unit="MB",
        note=f"all scores at once would take {PAIRS * SOURCES * 4 / 1e9:.0f} GB",
    )
