"""What each stage of a build computes from the data of earlier stages.

The functions are pure but for the files they read; `pipeline` says which stage needs which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.build.build_config import BuildConfig
from midstep.data.build.clustering import (
    adjacent_clusters,
    cluster_count,
    fit_clusters,
    nearest_clusters,
    similar_threshold,
)
from midstep.data.build.distinct_texts import DistinctTexts, deduplicate
from midstep.data.build.hard_negatives import mine_hard_negatives
from midstep.data.build.negative_tiers import MinedNegatives, MiningInputs
from midstep.data.build.read_table import Rows, read_rows
from midstep.data.build.splits import check_split, question_groups, split_groups
from midstep.data.build.stage_cache import StageData
from midstep.data.exact_search import unit_rows
from midstep.data.ragged import Ragged
from midstep.data.steering.storage.layout import SPLITS
from midstep.data.steering.vectors import steering_tables
from midstep.data.text.encoders import Encoder, encode_checked

Ids = NDArray[np.int64]

Advance = Callable[[int, int], None]
"""Called with how much is done, of how much."""
Part = Callable[[str, Callable[[], "NDArray[Any]"]], "NDArray[Any]"]
"""Given a name and a function, returns its array: computed now, or kept by an earlier attempt."""
SAMPLED_POINTS = 4096
"""Rows among which distinct vectors are counted: there cannot be more clusters than these."""
MOST_STRATA = 32


def merge_stage(config: BuildConfig) -> StageData:
    """Read the rows of all tables."""
    return asdict(read_rows(config))


def deduplicate_stage(rows: StageData) -> StageData:
    """Keep each text and each pair once."""
    texts = deduplicate(Rows(**rows))
    data = {each.name: getattr(texts, each.name) for each in fields(texts)}
    ids = data.pop("keyword_ids")
    return {**data, "keyword_offsets": ids.offsets, "keyword_values": ids.values}


def load_texts(data: StageData) -> DistinctTexts:
    """The result of `deduplicate_stage` as one object."""
    fields_of_texts = dict(data)
    offsets, values = (fields_of_texts.pop(f"keyword_{part}") for part in ("offsets", "values"))
    return DistinctTexts(**fields_of_texts, keyword_ids=Ragged(offsets, values))


def embed_texts(
    encoder: Encoder, texts: Sequence[str], name: str, batch: int, part: Part
) -> NDArray[np.float32]:
    """Encode texts batch by batch, one vector each; `part` keeps finished batches."""
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for start in range(0, len(texts), batch):
        encode = partial(encode_checked, encoder, texts[start : start + batch])
        vectors[start : start + batch] = part(f"{name}-{start}", encode)
    return vectors


def read_given_vectors(folder: Path, texts: DistinctTexts, rows: int) -> StageData:
    """Read vectors that were computed elsewhere: one row for each row of the tables."""
    given = {}
    for name, first_rows in (("questions", texts.question_row), ("sources", texts.source_row)):
        path = folder / f"{name}.npy"
        vectors = _vectors(path)
        if len(vectors) != rows:
            raise DatasetError(
                f"{path} has {len(vectors)} rows, the tables have {rows}; "
                "write a row for each row of the tables, in their order"
            )
        given[name] = vectors[first_rows]
    width = given["questions"].shape[1]
    given["keywords"] = _keyword_vectors(folder, texts, width)
    for name, vectors in given.items():
        if vectors.shape[1] != width:
            raise DatasetError(
                f"{folder / name}.npy is {vectors.shape[1]} wide, questions.npy {width}; "
                "encode both with the same encoder"
            )
    return given


def _keyword_vectors(folder: Path, texts: DistinctTexts, width: int) -> NDArray[np.float32]:
    if not texts.keywords:
        return np.zeros((0, width), dtype=np.float32)
    vectors, path = _vectors(folder / "keywords.npy"), folder / "keywords.txt"
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror}; write one keyword a line, in the order "
            "of keywords.npy"
        ) from error
    rows = {name.strip(): row for row, name in enumerate(names)}
    missing = [each for each in texts.keywords if each not in rows]
    if missing or len(names) != len(vectors):
        problem = f"no line {missing[0]!r}" if missing else f"{len(names)} lines"
        raise DatasetError(f"{path} has {problem}, keywords.npy has {len(vectors)} rows")
    return vectors[[rows[each] for each in texts.keywords]]


def open_vectors(path: Path) -> NDArray[Any]:
    """Map the matrix of a .npy file: floats [N, D]. Its values are not checked."""
    try:
        vectors: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror or error}; --embeddings takes a folder with "
            "questions.npy and sources.npy, a row for each row of the tables"
        ) from None
    except ValueError as error:
        raise DatasetError(
            f"{path} cannot be read: {error}; write it with numpy.save, floats [N, D]"
        ) from None
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise DatasetError(
            f"{path} is {vectors.dtype} {list(vectors.shape)}, expected floats [N, D]"
        )
    return vectors


def _vectors(path: Path) -> NDArray[np.float32]:
    vectors = open_vectors(path)
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise DatasetError(f"{path}[{wrong[0]}] has a value that is not finite")
    return np.asarray(vectors, dtype=np.float32)


def split_stage(
    config: BuildConfig, texts: DistinctTexts, vectors: Mapping[str, Any], advance: Advance
) -> StageData:
    """The split of each question: as the table says, or by groups and strata."""
    if config.split_column is not None:
        groups = np.arange(len(texts.questions), dtype=np.int64)
        check_split(texts.given_split, groups, {**config.ratios, "val": 0.0, "test": 0.0})
        return {"split": texts.given_split}
    questions, sources = unit_rows(vectors["questions"]), unit_rows(vectors["sources"])
    groups = question_groups(
        texts,
        questions,
        sources,
        together=config.keep_together,
        near_duplicate=config.near_duplicate,
        advance=advance,
    )
    # These clusters only say which questions are alike, so that every split gets some of each.
    # They are dropped: the dataset's own clusters are fitted on the training split alone, or val
    # and test would leak into training.
    strata = nearest_clusters(questions, fit_clusters(questions, _strata(questions), config.seed))
    split = split_groups(groups, strata, config.ratios, config.seed)
    check_split(split, groups, config.ratios)
    return {"split": split}


def _strata(questions_QD: NDArray[Any]) -> int:
    distinct = len(np.unique(questions_QD[:SAMPLED_POINTS], axis=0))
    return min(distinct, MOST_STRATA, cluster_count(len(questions_QD)))


def source_pools(texts: DistinctTexts, split: Ids) -> list[Ids]:
    """The sources of each split: those that share a row of the tables with its questions."""
    rows = np.concatenate([texts.pair_index, texts.irrelevant])
    owner = split[rows[:, 0]]
    return [np.unique(rows[owner == number, 1]) for number in range(len(SPLITS))]


def cluster_stage(
    config: BuildConfig, texts: DistinctTexts, vectors: Mapping[str, Any], split: Ids
) -> StageData:
    """Fit centroids, adjacent clusters and the similarity threshold on the training split only.

    A clustered point is the direction half way between the question and the source of a pair.
    """
    pairs = texts.pair_index[split[texts.pair_index[:, 0]] == 0]
    if not len(pairs):
        raise DatasetError(
            "the training split has no pair, so no cluster can be fitted; give train a larger share"
        )
    points = _midpoints(vectors, pairs)
    count = config.n_clusters
    if count is None:
        count = min(cluster_count(len(pairs)), len(np.unique(points[:SAMPLED_POINTS], axis=0)))
    centroids = fit_clusters(points, count, config.seed)
    questions = unit_rows(vectors["questions"][np.unique(pairs[:, 0])])
    sources = unit_rows(vectors["sources"][source_pools(texts, split)[0]])
    threshold = similar_threshold(questions, sources, config.similar_quantile, config.seed)
    return {
        "centroids": centroids,
        "adjacent": adjacent_clusters(centroids, config.adjacent),
        "threshold": threshold,
    }


def _midpoints(vectors: Mapping[str, Any], pairs: Ids) -> NDArray[np.float32]:
    questions, sources = (
        unit_rows(vectors[name][pairs[:, column]])
        for column, name in enumerate(("questions", "sources"))
    )
    return unit_rows(questions + sources)


def link_stage(
    texts: DistinctTexts, vectors: Mapping[str, Any], clusters: Mapping[str, Any]
) -> StageData:
    """The cluster of each pair (by its question) and of each source: the nearest centroid."""
    questions = nearest_clusters(unit_rows(vectors["questions"]), clusters["centroids"])
    sources = nearest_clusters(unit_rows(vectors["sources"]), clusters["centroids"])
    return {"pair_cluster": questions[texts.pair_index[:, 0]], "source_cluster": sources}


def steering_stage(
    config: BuildConfig,
    texts: DistinctTexts,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> StageData:
    """The three steering vectors and the centroid distance of each pair."""
    tables = steering_tables(
        vectors["questions"][texts.pair_index[:, 0]],
        clusters["centroids"][links["pair_cluster"]],
        vectors["keywords"],
        texts.keyword_ids,
        definition=config.steering_definition,
    )
    return dict(tables)


def collect_mining_inputs(
    texts: DistinctTexts,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> MiningInputs:
    """What mining reads."""
    return MiningInputs(
        questions=unit_rows(vectors["questions"]),
        sources=unit_rows(vectors["sources"]),
        pair_index=texts.pair_index,
        pair_cluster=links["pair_cluster"],
        source_cluster=links["source_cluster"],
        adjacent=clusters["adjacent"],
        positives=texts.positives(),
        threshold=clusters["threshold"],
    )


def mine_stage(
    config: BuildConfig, texts: DistinctTexts, inputs: MiningInputs, split: Ids, advance: Advance
) -> StageData:
    """Negatives of each pair, from the sources of its split."""
    owner = split[texts.pair_index[:, 0]]
    mined = MinedNegatives.empty(len(owner), config.quotas)
    for number, pool in enumerate(source_pools(texts, split)):
        pairs = np.flatnonzero(owner == number)
        before = int(np.count_nonzero(owner < number))
        block = mine_hard_negatives(
            inputs,
            pairs,
            pool,
            quotas=config.quotas,
            margin=config.margin,
            seed=config.seed,
            advance=partial(_advance_from, advance, before, len(owner)),
        )
        mined.set_rows(pairs, block)
    return mined.to_stage()


def _advance_from(advance: Advance, before: int, total: int, done: int) -> None:
    advance(before + done, total)
