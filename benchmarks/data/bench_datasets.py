"""Embedding datasets: batches beside what memory gives, resume at 10 M pairs, mapped mode."""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.data.memory_ceilings import one_thread, told_ceilings
from benchmarks.figures import Figure, alternating_ratio, spread_of
from midstep.data import DatasetConfig, JASPERSteeringDataset, Ragged, create_loader, write_dataset
from midstep.data.steering.storage.layout import TABLES, stored_arrays

__all__ = ["Endless", "PerSample", "figures", "small_config", "tables_of"]

BATCH, NEGATIVES, WIDTH = 256, 12, 384
PAIRS, SOURCES, QUESTIONS = 80_000, 80_000, 40_000
MANY_PAIRS = 10_000_000
BLOCK = 60
"""Batches in a block that is timed."""


def small_config(**counts: int) -> DatasetConfig:
    """A config of the size that is measured, or of other counts."""
    settings: dict[str, Any] = {
        "embedding_dim": WIDTH,
        "n_neg": NEGATIVES,
        "n_pairs": PAIRS,
        "n_questions": QUESTIONS,
        "n_sources": SOURCES,
        "n_keywords": 8,
        "n_clusters": 50,
        "random_seed": 1,
        "steering_probabilities": dict.fromkeys(("zero", "centroid", "keyword", "residual"), 0.25),
    }
    return DatasetConfig(**{**settings, **counts})


def tables_of(config: DatasetConfig) -> dict[str, Any]:
    """Random tables under it."""
    chance = np.random.default_rng(0)
    pairs = config.n_pairs

    def floats(rows: int) -> Any:
        return chance.standard_normal((rows, config.embedding_dim), dtype=np.float32)

    sources = chance.integers(config.n_sources, size=pairs)
    shift = chance.integers(1, config.n_sources, size=(pairs, config.n_neg))
    ends = np.split(np.arange(pairs), [pairs - 2048, pairs - 1024])
    return {
        **{f"{name}_idx": ids for name, ids in zip(("train", "val", "test"), ends, strict=True)},
        "question_embs": floats(config.n_questions),
        "source_embs": floats(config.n_sources),
        "keyword_embs": floats(config.n_keywords),
        "centroid_embs": floats(config.n_clusters),
        "pair_index": np.stack([chance.integers(config.n_questions, size=pairs), sources], axis=1),
        "pair_cluster_id": chance.integers(config.n_clusters, size=pairs),
        "pair_relevance": chance.random(pairs, dtype=np.float32),
        "pair_keyword_ids": Ragged(np.zeros(pairs + 1, np.int64), np.zeros(0, np.int64)),
        "hard_negatives": (sources[:, None] + shift) % config.n_sources,
        "negative_tiers": chance.integers(1, 5, size=(pairs, config.n_neg)),
        "steering_centroid": floats(pairs),
        "steering_keyword_weighted": floats(pairs),
        "steering_residual": floats(pairs),
        "centroid_distances": chance.random(pairs, dtype=np.float32),
    }


# -- batches ---------------------------------------------------------------------------------------


class PerSample(Dataset[dict[str, torch.Tensor]]):
    """The usual way: tables in memory, one sample at a time, collated by the loader."""

    def __init__(self, dataset: JASPERSteeringDataset) -> None:
        memory = dataset._tables
        self.length = len(dataset)
        self.questions, self.sources = memory.questions.tensor, memory.sources.tensor
        joined = memory.steering._joined
        assert joined is not None
        self.steering, self.pairs = joined.tensor, len(memory.columns["pair_index"])
        self.columns = {
            name: torch.from_numpy(value.copy()) for name, value in memory.columns.items()
        }

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        question, source = self.columns["pair_index"][index]
        variant = int(torch.randint(4, ()))
        row = self.steering.shape[0] - 1 if variant == 0 else (variant - 1) * self.pairs + index
        return {
            "question_emb": self.questions[question],
            "target_source_emb": self.sources[source],
            "steering": self.steering[row],
            "negative_embs": self.sources[self.columns["hard_negatives"][index]],
            "cluster_id": self.columns["pair_cluster_id"][index],
            "steering_variant": torch.tensor(variant),
            "relevance": self.columns["pair_relevance"][index],
            "centroid_distance": self.columns["centroid_distances"][index],
            "negative_tiers": self.columns["negative_tiers"][index],
            "pair_id": torch.tensor(index),
        }


class Endless:
    """Batches of a loader, epoch after epoch, so that a block is never cut by an epoch's end."""

    def __init__(self, loader: Any) -> None:
        self.loader, self._pass = loader, iter(loader)

    def draw(self, count: int) -> float:
        """Seconds for so many batches."""
        begun = time.perf_counter()
        for _ in range(count):
            if next(self._pass, None) is None:
                self._pass = iter(self.loader)
                next(self._pass)
        return time.perf_counter() - begun

    def close(self) -> None:
        """Let go of the pass, and with it of its workers."""
        self._pass = iter(())


class _Ceiling:
    """Only the gathers, of the very rows that batches are made of, into one buffer."""

    def __init__(self, dataset: JASPERSteeringDataset) -> None:
        self.memory = dataset._tables
        chance = np.random.default_rng(1)
        self.plans = [
            dataset.plan(chance.integers(len(dataset), size=BATCH), epoch) for epoch in range(BLOCK)
        ]
        self.buffer = torch.empty(BATCH * (3 + NEGATIVES), WIDTH)
        self.other = torch.empty_like(self.buffer)

    def gather(self, count: int) -> float:
        """Seconds for the gathers of so many batches."""
        memory, buffer = self.memory, self.buffer
        steering = memory.steering._joined
        assert steering is not None
        begun = time.perf_counter()
        for plan in self.plans[:count]:
            for at, (table, ids) in enumerate(
                (
                    (memory.questions, plan.question),
                    (memory.sources, plan.source),
                    (steering, plan.steering),
                )
            ):
                into = buffer[at * BATCH : (at + 1) * BATCH]
                torch.index_select(table.tensor, 0, ids, out=into)
            into = buffer[3 * BATCH :]
            torch.index_select(memory.sources.tensor, 0, plan.negatives.view(-1), out=into)
        return time.perf_counter() - begun

    def copy(self, count: int) -> float:
        """Seconds to copy as many bytes in one piece."""
        begun = time.perf_counter()
        for _ in range(count):
            self.other.copy_(self.buffer)
        return time.perf_counter() - begun

    def told(self) -> str:
        """Both ceilings as words."""
        found = [
            BLOCK / statistics.median(each(BLOCK) for _ in range(9))
            for each in (self.gather, self.copy)
        ]
        return f"gather {found[0]:.0f}/s, memcpy {found[1]:.0f}/s"


def batches(folder: Path) -> Iterator[Figure]:
    """Batches a second, against the gather and against one sample at a time."""
    dataset = JASPERSteeringDataset(folder)
    with one_thread():
        ceiling = _Ceiling(dataset)
        alone = Endless(create_loader(dataset, "train", BATCH, prefetch=False))
        loader = Endless(create_loader(dataset.for_split("train"), "train", BATCH))
        for source, who, bar in ((alone, "in one thread", 55.0), (loader, "two threads", None)):
            value, low, high = alternating_ratio(
                lambda source=source: source.draw(BLOCK),  # type: ignore[misc]
                lambda: ceiling.gather(BLOCK),
                pairs=40,
            )
            speed = BLOCK / statistics.median(source.draw(BLOCK) for _ in range(9))
            yield Figure(
                name=f"steering batches of 256 × 12 × 384 {who}, share of the one-thread gather",
                value=100 * value,
                unit="%",
                low=100 * low,
                high=100 * high,
                bar=bar,
                at_least=True,
                note=f"{speed:.0f}/s; {ceiling.told()}",
            )
        told = ceiling.told()
        yield _against_per_sample(dataset, loader, ", torch in one thread", told)
        yield _against_per_sample(dataset, loader, ", 2 workers", told, workers=2)
    yield _against_per_sample(dataset, loader, "", told, bar=10)


def _against_per_sample(
    dataset: JASPERSteeringDataset,
    ours: Endless,
    how: str,
    told: str,
    *,
    workers: int = 0,
    bar: float | None = None,
) -> Figure:
    """Ours as it is by default; theirs in this process, or by workers that make batches ahead.

    A block must be longer than what workers have ready, or it would count what they made in ours.
    """
    few = 24 if workers else 4
    usual = Endless(
        DataLoader(PerSample(dataset), batch_size=BATCH, shuffle=True, num_workers=workers)
    )
    name = f"… against a per-sample Dataset in torch's DataLoader{how}"
    pairs = 8 if workers else 20
    found = times_as_fast(ours, usual, few, name=name, bar=bar, pairs=pairs, told=told)
    usual.close()
    return found


def times_as_fast(
    ours: Endless,
    theirs: Endless,
    few: int,
    *,
    name: str,
    bar: float | None,
    told: str,
    pairs: int = 40,
) -> Figure:
    """How many times as fast ours is: blocks of `few` batches of theirs, ten times as many of ours.

    `told` stands behind the speeds in the note: the ceilings of this process.
    """
    value, low, high = alternating_ratio(
        lambda: ours.draw(few * 10) / 10, lambda: theirs.draw(few), pairs=pairs
    )
    speeds = f"theirs {few / theirs.draw(few):.0f}/s, ours {few * 10 / ours.draw(few * 10):.0f}/s"
    return Figure(
        name=name,
        value=value,
        unit="×",
        low=low,
        high=high,
        bar=bar,
        at_least=True,
        note=f"{speeds}; {told}",
    )


# -- resume ----------------------------------------------------------------------------------------


def _hollow(folder: Path) -> Path:
    """Ten million pairs in files that hold only zeros; the order does not look at them."""
    config = small_config(embedding_dim=2, n_neg=1, n_pairs=MANY_PAIRS)
    folder.mkdir()
    for spec in TABLES.values():
        for array in stored_arrays(spec, config.counts):
            shape = tuple(0 if part is None else part for part in array.shape)
            kind = np.int64 if array.kind == "int" else np.float32
            if array.name == "train_idx":
                np.save(folder / "train_idx.npy", np.arange(MANY_PAIRS))
            else:
                path = folder / f"{array.name}.npy"
                np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape).flush()
    (folder / "config.json").write_text(json.dumps(config.to_json()))
    return folder


def resume(folder: Path) -> Iterator[Figure]:
    """From a saved state to the first batch, tables in memory and mapped."""
    _hollow(folder)
    for how in (False, True):
        dataset = JASPERSteeringDataset(folder, mapped=how, verify=False)
        value, low, high = spread_of([_resume_ms(dataset, number) for number in range(15)])
        yield Figure(
            name=f"resume to the first batch at 10 M pairs, {'mapped' if how else 'in memory'}",
            value=value,
            unit="ms",
            low=low,
            high=high,
            bar=50,
        )
    state = create_loader(dataset, "train", BATCH).state_dict()
    yield Figure(
        name="state of a loader at 10 M pairs",
        value=len(json.dumps(state).encode()),
        unit="bytes",
        bar=1024,
    )


def _resume_ms(dataset: JASPERSteeringDataset, number: int) -> float:
    """By a loader that has drawn nothing yet, somewhere in the third epoch."""
    saved = create_loader(dataset.for_split("train"), "train", BATCH)
    cursor = (number * 2_654_435_761 % (MANY_PAIRS // BATCH)) * BATCH
    place = {"epoch": 3, "cursor": cursor, "last": f"{saved._recent_digest(cursor, 3):016x}"}
    state = {**saved.state_dict(), **place}
    loader = create_loader(dataset.for_split("train"), "train", BATCH)
    begun = time.perf_counter()
    loader.load_state_dict(state)
    next(iter(loader))
    return 1e3 * (time.perf_counter() - begun)


# -- mapped ----------------------------------------------------------------------------------------


def _draw_mapped(folder: Path, answer: Any) -> None:
    """In a process of its own: the most that an epoch in random order adds, and its speed."""
    process = psutil.Process()
    torch.empty(8).index_select(0, torch.tensor([1]))  # what a first operation takes once
    before = process.memory_info().rss
    dataset = JASPERSteeringDataset(folder, mapped=True)
    most, count, begun = 0, 0, time.perf_counter()
    for batch in create_loader(dataset, "train", BATCH):
        most = max(most, process.memory_info().rss - before)
        count += len(batch["pair_id"]) // BATCH
    speed = count / (time.perf_counter() - begun)
    answer.put((most, speed, told_ceilings()))


def mapped(folder: Path) -> Figure:
    """Resident memory over one epoch in random order, buffers and all included."""
    spawn = multiprocessing.get_context("spawn")
    answer = spawn.SimpleQueue()
    child = spawn.Process(target=_draw_mapped, args=(folder, answer))
    child.start()
    most, speed, told = answer.get()
    child.join()
    size = sum(path.stat().st_size for path in folder.iterdir())
    return Figure(
        name="mapped mode: resident memory over one epoch, share of the files",
        value=100 * most / size,
        unit="%",
        bar=10,
        note=f"{size / 1e6:.0f} MB of files, {most / 1e6:.0f} MB resident, {speed:.0f}/s; {told}",
    )


def figures() -> Iterator[Figure]:
    """All figures of this module."""
    with tempfile.TemporaryDirectory() as root:
        config = small_config()
        folder = write_dataset(Path(root) / "dataset", tables_of(config), config)
        yield mapped(folder)
        yield from batches(folder)
        yield from resume(Path(root) / "many")
