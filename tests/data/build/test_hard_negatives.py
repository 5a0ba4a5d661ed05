"""Negatives: exact, honest, never an answer; checked beside a slow twin from the definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from midstep.data.build import (
    hard_negatives,
)
from midstep.data.build.build_config import BuildConfig, quotas_for
from midstep.data.build.distinct_texts import DistinctTexts, deduplicate
from midstep.data.build.hard_negatives import mine_hard_negatives
from midstep.data.build.negative_tiers import (
    MinedNegatives,
    MiningInputs,
    fill_order,
    negative_problems,
)
from midstep.data.build.pipeline import (
    cluster_stage,
    collect_mining_inputs,
    link_stage,
    mine_stage,
    source_pools,
)
from midstep.data.build.read_table import Rows
from midstep.data.build.splits import split_groups
from midstep.data.ragged import Ragged
from midstep.data.text.encoders import HashingEncoder
from midstep.data.text.normalise import normalise_text

WORDS = ("sun", "moon", "star", "rock", "tree", "leaf", "fish", "bird", "salt", "corn", "iron")
EDGE = 1e-5
"""Scores this near to a limit may fall on either side of it."""
ENCODERS = {width: HashingEncoder(width) for width in (4, 8, 16)}


def complete_pairs(mined: MinedNegatives) -> Any:
    """Which pairs have all their negatives."""
    return (mined.negatives >= 0).all(axis=1)


def random_text(chance: np.random.Generator) -> str:
    """A short text, sometimes the same as another but for the way it is written."""
    words = [WORDS[each] for each in chance.integers(len(WORDS), size=chance.integers(1, 4))]
    text = " ".join(words)
    ways = (str, str.upper, str.title, lambda t: f" {t} ", lambda t: f"{t}.", lambda t: f"“{t}”")
    return str(ways[chance.integers(len(ways))](text))


def random_case(seed: int) -> tuple[BuildConfig, DistinctTexts, MiningInputs, Any]:
    """A small random dataset up to the stage before mining."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(6, 30))
    rows = Rows(
        questions=[random_text(chance) for _ in range(count)],
        sources=[random_text(chance) for _ in range(count)],
        relevance=[1.0, *np.round(chance.random(count - 1) * (chance.random(count - 1) < 0.8), 2)],
        keywords=[[]] * count,
        splits=[""] * count,
    )
    n_neg = int(chance.integers(1, 9))
    config = BuildConfig(
        tables="t.csv",
        out="out",
        n_neg=n_neg,
        quotas=dict(zip((1, 2, 3, 4), chance.multinomial(n_neg, [0.25] * 4).tolist(), strict=True)),
        margin=float(chance.choice([0.95, 0.5, 1.0])),
        adjacent=int(chance.integers(0, 4)),
        seed=seed,
    )
    texts = deduplicate(rows)
    encoder = ENCODERS[int(chance.choice(list(ENCODERS)))]
    vectors = {name: encoder.encode(getattr(texts, name)) for name in ("questions", "sources")}
    split = split_groups(
        np.arange(len(texts.questions)),
        np.zeros(len(texts.questions), dtype=np.int64),
        {"train": 0.6, "val": 0.2, "test": 0.2},
        seed,
    )
    split[texts.pair_index[0, 0]] = 0  # so that something can be fitted
    clusters = cluster_stage(config, texts, vectors, split)
    links = link_stage(texts, vectors, clusters)
    return config, texts, collect_mining_inputs(texts, vectors, clusters, links), split


def slow_tier(field: MiningInputs, pair: int, source: int, score: float) -> set[int]:
    """The tier by definition; both where the score is at the threshold."""
    own, found = field.pair_cluster[pair], field.source_cluster[source]
    if found == own:
        return {1}
    if found in field.adjacent[own].tolist():
        return {2}
    if abs(score - field.threshold) <= EDGE:
        return {3, 4}
    return {3} if score >= field.threshold else {4}


def slow_check(
    config: BuildConfig, texts: DistinctTexts, field: MiningInputs, split: Any, made: MinedNegatives
) -> None:
    """Every promise, pair by pair and source by source, in float64."""
    questions, sources = field.questions.astype(np.float64), field.sources.astype(np.float64)
    source_keys = [normalise_text(each) for each in texts.sources]
    question_keys = [normalise_text(each) for each in texts.questions]
    answers: dict[str, set[str]] = {}
    for question, source in texts.pair_index.tolist():
        answers.setdefault(question_keys[question], set()).add(source_keys[source])
    scores = (questions @ sources.T).tolist()
    own_pools = [set(pool.tolist()) for pool in source_pools(texts, split)]
    for pair, (question, source) in enumerate(texts.pair_index.tolist()):
        pool = own_pools[split[question]]
        own_answers = answers[question_keys[question]]
        score = scores[question]
        positive = score[source]
        limit = positive - (1 - config.margin) * abs(positive)
        allowed: dict[int, list[int]] = {1: [], 2: [], 3: [], 4: []}
        unclear = 0
        for each in sorted(pool):
            if source_keys[each] in own_answers or score[each] > limit + EDGE:
                continue
            tiers = slow_tier(field, pair, each, score[each])
            unclear += len(tiers) > 1 or score[each] > limit - EDGE
            allowed[min(tiers)].append(each)
        got = [each for each in made.negatives[pair].tolist() if each >= 0]
        labels = made.tiers[pair].tolist()
        assert len(set(got)) == len(got), "a negative stands there twice"
        for each, tier in zip(got, labels, strict=False):
            assert each in pool, "a negative is of another split"
            assert source_keys[each] not in own_answers, "a negative is an answer"
            assert score[each] <= limit + EDGE, "a negative is above the margin"
            assert tier in slow_tier(field, pair, each, score[each]), "a tier is not honest"
        if unclear:
            continue  # how many there are of each tier depends on a rounding
        slow_quotas(config, made, pair, allowed, score, got, labels)


def slow_quotas(config, made, pair, allowed, score, got, labels) -> None:
    """Quotas kept where they can be, shortages told, the hardest taken."""
    taken = {tier: min(quota, len(allowed[tier])) for tier, quota in config.quotas.items()}
    assert made.available[pair].tolist() == [taken[tier] for tier in (1, 2, 3, 4)]
    for tier in (1, 2, 3, 4):
        short = config.quotas[tier] - min(config.quotas[tier], len(allowed[tier]))
        for other in fill_order(tier):
            given = min(short, len(allowed[other]) - taken[other])
            assert made.filled[pair, tier - 1, other - 1] == given
            taken[other] += given
            short -= given
    for tier in (1, 2, 3, 4):
        chosen = [score[each] for each, label in zip(got, labels, strict=False) if label == tier]
        assert len(chosen) == taken[tier]
        if tier < 4:
            hardest = sorted((score[each] for each in allowed[tier]), reverse=True)
            assert all(abs(one - two) <= EDGE for one, two in zip(chosen, hardest, strict=False))


@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_random_datasets_keep_every_promise(hundred: int) -> None:
    pairs = short = whole = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        config, texts, field, split = random_case(seed)
        pieces = mine_stage(config, texts, field, split, lambda done, total: None)
        made = MinedNegatives.from_stage(pieces, config.quotas, np.arange(len(pieces["negatives"])))
        slow_check(config, texts, field, split, made)
        pairs += len(made.negatives)
        whole += int(complete_pairs(made).sum())
        short += made.ledger()["short_pairs"]
    # The cases are worth something: many pairs, some short, some not, some without enough.
    assert pairs > 800
    assert 0 < whole < pairs
    assert 0 < short < pairs


def larger_field(pairs: int = 700, sources: int = 900, clusters: int = 9) -> MiningInputs:
    """Vectors of whole numbers: their products are exact in any order of summation."""
    chance = np.random.default_rng(5)
    index = np.stack([np.arange(pairs), chance.integers(sources, size=pairs)], axis=1)
    return MiningInputs(
        questions=chance.integers(-3, 4, size=(pairs, 12)).astype(np.float32),
        sources=chance.integers(-3, 4, size=(sources, 12)).astype(np.float32),
        pair_index=index,
        pair_cluster=chance.integers(clusters, size=pairs),
        source_cluster=chance.integers(clusters, size=sources),
        adjacent=np.stack([(np.arange(clusters) + step) % clusters for step in (1, 2, 3)], axis=1),
        positives=Ragged.from_lists([[int(each)] for each in index[:, 1]]),
        threshold=2.5,
    )


def mined(field: MiningInputs, **changes: Any) -> MinedNegatives:
    settings: dict[str, Any] = {"quotas": quotas_for(12), "margin": 1.0, "seed": 4, **changes}
    return mine_hard_negatives(
        field, np.arange(len(field.pair_index)), np.arange(len(field.sources)), **settings
    )


def test_blocks_change_nothing(monkeypatch) -> None:
    field = larger_field()
    whole = mined(field)
    monkeypatch.setattr(hard_negatives, "BLOCK_PAIRS", 13)
    small = mined(field)
    for name in ("negatives", "tiers", "available", "filled"):
        assert np.array_equal(getattr(whole, name), getattr(small, name))


def test_a_pair_does_not_depend_on_the_other_pairs() -> None:
    field = larger_field()
    whole = mined(field)
    some = np.arange(0, 700, 7)
    part = mine_hard_negatives(
        field, some, np.arange(900), quotas=quotas_for(12), margin=1.0, seed=4
    )
    assert np.array_equal(part.negatives, whole.negatives[some])


def test_distant_ones_are_random_and_follow_the_seed(monkeypatch) -> None:
    field = larger_field()
    quotas = {1: 0, 2: 0, 3: 0, 4: 12}
    one, other = mined(field, quotas=quotas), mined(field, quotas=quotas, seed=5)
    full = complete_pairs(one) & complete_pairs(other)
    assert full.mean() > 0.5
    assert not np.array_equal(one.negatives, other.negatives)
    counts = np.bincount(one.negatives[one.negatives >= 0], minlength=900)
    # Each source is distant for about half of the pairs; a favourite would stand out.
    assert counts.max() < 6 * counts.mean()
    monkeypatch.setattr(hard_negatives, "DRAWS", 1)  # so that all sources are looked at
    late = mined(field, quotas=quotas)
    assert not list(
        negative_problems(
            field,
            np.flatnonzero(complete_pairs(late)),
            np.arange(900),
            late.negatives[complete_pairs(late)],
            late.tiers[complete_pairs(late)],
            1.0,
        )
    )


def test_the_last_look_finds_each_broken_promise() -> None:
    field = larger_field()
    made = mined(field)
    pairs = np.flatnonzero(complete_pairs(made))
    pool = np.setdiff1d(np.arange(900), [])

    def problems(negatives, tiers, pool=pool, margin=1.0) -> str:
        return "\n".join(negative_problems(field, pairs, pool, negatives, tiers, margin))

    good, tiers = made.negatives[pairs], made.tiers[pairs]
    assert problems(good, tiers) == ""
    answer = good.copy()
    answer[3, 2] = field.pair_index[pairs[3], 1]
    assert f"negative 2 of pair {pairs[3]}" in problems(answer, tiers)
    assert "answers the question" in problems(answer, tiers)
    twice = good.copy()
    twice[0, 5] = twice[0, 4]
    assert "is listed twice" in problems(twice, tiers)
    assert "is of another split" in problems(good, tiers, pool=pool[pool != good[0, 0]])
    assert "scores above the margin" in problems(good, tiers, margin=0.0)
    assert "is of another tier" in problems(good, np.where(tiers == 1, 2, tiers))


def test_ledger_counts_and_names_every_shortage() -> None:
    field = larger_field(clusters=3)  # own and adjacent are everything: tiers 3 and 4 are empty
    field = replace(field, adjacent=np.array([[1, 2], [0, 2], [0, 1]]))
    made = mined(field)
    ledger = made.ledger()
    assert ledger["quotas"] == {"1": 4, "2": 3, "3": 3, "4": 2}
    assert ledger["short_pairs"] == 700
    assert ledger["made"]["3"] == ledger["made"]["4"] == 0
    assert ledger["made"]["1"] + ledger["made"]["2"] == int((made.negatives >= 0).sum())
    first = next(each for each in ledger["shortages"] if each["tier"] == 3)
    assert first["found"] == 0
    assert first["wanted"] == 3
    assert sum(first["filled_from"].values()) <= 3
