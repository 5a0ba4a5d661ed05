"""What each stage of a build does: from the pieces of earlier stages to pieces of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from midstep.core.errors import DatasetError
from midstep.data.build.clustering import (
    adjacent_clusters,
    cluster_count,
    fit_clusters,
    nearest,
    similar_threshold,
    unit_rows,
)
from midstep.data.build.config import BuildConfig
from midstep.data.build.distinct import Distinct, distinct
from midstep.data.build.encoders import Encoder, checked_vectors
from midstep.data.build.filling import Filled
from midstep.data.build.grouping import question_groups
from midstep.data.build.mining import mine
from midstep.data.build.reading import Rows, read_rows
from midstep.data.build.splitting import check_split, split_groups
from midstep.data.build.tiers import Field
from midstep.data.build.workshop import Pieces
from midstep.data.embedding.layout import SPLITS, Ragged
from midstep.data.embedding.steering import steering_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

__all__ = [
    "cluster_stage",
    "deduplicate_stage",
    "embed_texts",
    "field_of",
    "given_vectors",
    "link_stage",
    "merge_stage",
    "mine_stage",
    "pools",
    "split_stage",
    "steering_stage",
    "stored_vectors",
    "texts_of",
]

Advance = Callable[[int, int], None]
Part = Callable[[str, Callable[[], "NDArray[Any]"]], "NDArray[Any]"]


def merge_stage(config: BuildConfig) -> Pieces:
    """The rows of all tables."""
    return asdict(read_rows(config))


def deduplicate_stage(rows: Pieces) -> Pieces:
    """Each text and each pair once."""
    found = distinct(Rows(**rows))
    pieces = {name: getattr(found, name) for name in found.__dataclass_fields__}
    ids = pieces.pop("keyword_ids")
    return {**pieces, "keyword_offsets": ids.offsets, "keyword_values": ids.values}


def texts_of(pieces: Pieces) -> Distinct:
    """What `deduplicate_stage` made, as one object."""
    own = dict(pieces)
    ids = Ragged(own.pop("keyword_offsets"), own.pop("keyword_values"))
    return Distinct(**own, keyword_ids=ids)


def embed_texts(
    encoder: Encoder, texts: Sequence[str], name: str, batch: int, part: Part
) -> NDArray[np.float32]:
    """One vector a text, a batch at a time; finished batches are kept by `part`."""
    made = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    for start in range(0, len(texts), batch):
        some = texts[start : start + batch]
        made[start : start + batch] = part(
            f"{name}-{start}", partial(checked_vectors, encoder, some)
        )
    return made


def given_vectors(folder: Path, texts: Distinct, rows: int) -> Pieces:
    """Vectors that were made elsewhere: a row for each row of the tables, keywords by name."""
    made = {}
    for name, at in (("questions", texts.question_row), ("sources", texts.source_row)):
        path = folder / f"{name}.npy"
        vectors = _vectors(path)
        if len(vectors) != rows:
            raise DatasetError(
                f"{path} has {len(vectors)} rows, the tables have {rows}; "
                "write a row for each row of the tables, in their order"
            )
        made[name] = vectors[at]
    width = made["questions"].shape[1]
    made["keywords"] = _keyword_vectors(folder, texts, width)
    for name, vectors in made.items():
        if vectors.shape[1] != width:
            raise DatasetError(
                f"{folder / name}.npy is {vectors.shape[1]} wide, questions.npy {width}"
            )
    return made


def _keyword_vectors(folder: Path, texts: Distinct, width: int) -> NDArray[np.float32]:
    if not texts.keywords:
        return np.zeros((0, width), dtype=np.float32)
    vectors, path = _vectors(folder / "keywords.npy"), folder / "keywords.txt"
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror}; one keyword a line"
        ) from error
    at = {name.strip(): row for row, name in enumerate(names)}
    missing = [each for each in texts.keywords if each not in at]
    if missing or len(names) != len(vectors):
        said = f"no line {missing[0]!r}" if missing else f"{len(names)} lines"
        raise DatasetError(f"{path} has {said}, keywords.npy has {len(vectors)} rows")
    return vectors[[at[each] for each in texts.keywords]]


def stored_vectors(path: Path) -> NDArray[Any]:
    """The table of a .npy file, mapped: floats [N, D], their values not yet looked at."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror or error}; --embeddings takes a folder with "
            "questions.npy and sources.npy, a row for each row of the tables"
        ) from None
    except ValueError as error:
        raise DatasetError(
            f"{path} cannot be read: {error}; write it with numpy.save, floats [N, D]"
        ) from None
    if found.ndim != 2 or found.dtype.kind != "f":
        raise DatasetError(f"{path} is {found.dtype} {list(found.shape)}, expected floats [N, D]")
    mapped: NDArray[Any] = found
    return mapped


def _vectors(path: Path) -> NDArray[np.float32]:
    found = stored_vectors(path)
    wrong = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(wrong):
        raise DatasetError(f"{path}[{wrong[0]}] has a value that is not finite")
    return np.asarray(found, dtype=np.float32)


def split_stage(
    config: BuildConfig, texts: Distinct, vectors: Mapping[str, Any], advance: Advance
) -> Pieces:
    """The split of each question: as the table says, or by group and stratum."""
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
    # These clusters only say what is alike, so that every split gets some of it; they are thrown
    # away, and the dataset's own are fitted on the training split alone.
    strata = nearest(questions, fit_clusters(questions, _strata(questions), config.seed))
    split = split_groups(groups, strata, config.ratios, config.seed)
    check_split(split, groups, config.ratios)
    return {"split": split}


def _strata(questions_QD: NDArray[Any]) -> int:  # noqa: N803 - shape suffix
    distinct_rows = len(np.unique(questions_QD[:4096], axis=0))
    return min(distinct_rows, 32, cluster_count(len(questions_QD)))


def pools(texts: Distinct, split: Ids) -> list[Ids]:
    """The sources of each split: those that stand in a row with one of its questions."""
    rows = np.concatenate([texts.pair_index, texts.irrelevant])
    owner = split[rows[:, 0]]
    return [np.unique(rows[owner == number, 1]) for number in range(len(SPLITS))]


def cluster_stage(
    config: BuildConfig, texts: Distinct, vectors: Mapping[str, Any], split: Ids
) -> Pieces:
    """Centroids, neighbours and the threshold: from the training split, and nothing else.

    A point is the direction half way between the question and the source of a pair.
    """
    pairs = texts.pair_index[split[texts.pair_index[:, 0]] == 0]
    if not len(pairs):
        raise DatasetError("the training split has no pair; nothing can be fitted")
    points = _half_way(vectors, pairs)
    count = config.n_clusters
    if count is None:
        count = min(cluster_count(len(pairs)), len(np.unique(points[:4096], axis=0)))
    centroids = fit_clusters(points, count, config.seed)
    questions = unit_rows(vectors["questions"][np.unique(pairs[:, 0])])
    sources = unit_rows(vectors["sources"][pools(texts, split)[0]])
    threshold = similar_threshold(questions, sources, config.similar_quantile, config.seed)
    return {
        "centroids": centroids,
        "adjacent": adjacent_clusters(centroids, config.adjacent),
        "threshold": threshold,
    }


def _half_way(vectors: Mapping[str, Any], pairs: Ids) -> NDArray[np.float32]:
    questions, sources = (
        unit_rows(vectors[name][pairs[:, column]])
        for column, name in enumerate(("questions", "sources"))
    )
    return unit_rows(questions + sources)


def link_stage(texts: Distinct, vectors: Mapping[str, Any], clusters: Mapping[str, Any]) -> Pieces:
    """The cluster of each pair, by its question, and of each source: the nearest centroid."""
    questions = nearest(unit_rows(vectors["questions"]), clusters["centroids"])
    sources = nearest(unit_rows(vectors["sources"]), clusters["centroids"])
    return {"pair_cluster": questions[texts.pair_index[:, 0]], "source_cluster": sources}


def steering_stage(
    config: BuildConfig,
    texts: Distinct,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> Pieces:
    """The three steering vectors and the distance of each pair."""
    made = steering_tables(
        vectors["questions"][texts.pair_index[:, 0]],
        clusters["centroids"][links["pair_cluster"]],
        vectors["keywords"],
        texts.keyword_ids,
        definition=config.steering_definition,
    )
    return dict(made)


def field_of(
    texts: Distinct,
    vectors: Mapping[str, Any],
    clusters: Mapping[str, Any],
    links: Mapping[str, Any],
) -> Field:
    """All that mining looks at."""
    return Field(
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
    config: BuildConfig, texts: Distinct, field: Field, split: Ids, advance: Advance
) -> Pieces:
    """Negatives of each pair, out of the pool of its split."""
    owner = split[texts.pair_index[:, 0]]
    made = Filled.empty(len(owner), config.quotas)
    for number, pool in enumerate(pools(texts, split)):
        pairs = np.flatnonzero(owner == number)
        before = int(np.count_nonzero(owner < number))
        found = mine(
            field,
            pairs,
            pool,
            quotas=config.quotas,
            margin=config.margin,
            seed=config.seed,
            advance=partial(_shifted, advance, before, len(owner)),
        )
        made.put(pairs, found)
    return {name: getattr(made, name) for name in ("negatives", "tiers", "found", "filled")}


def _shifted(advance: Advance, before: int, total: int, done: int) -> None:
    advance(before + done, total)
