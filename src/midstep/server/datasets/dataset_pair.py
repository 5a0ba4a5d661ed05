"""One pair of a dataset with everything a batch takes from it, and the similarities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from midstep.server.array_json import numbers
from midstep.server.datasets.data_roots import DataRoots, StoredDataset, damaged
from midstep.server.datasets.dataset_files import Kind, texts_of
from midstep.server.datasets.dataset_views import checked_ids, owners, split_name
from midstep.server.problems import not_found

if TYPE_CHECKING:
    import numpy as np

    from midstep.data.steering.storage.tables import Tables

    Floats = np.ndarray[Any, np.dtype[np.float64]]

EPOCHS = 100
"""Epochs whose variants are sent."""
MOST_KEYWORDS = 200
"""Keywords of a pair that are sent."""
VARIANTS = {
    "centroid": "steering_centroid",
    "keyword": "steering_keyword_weighted",
    "residual": "steering_residual",
}


def pair_json(roots: DataRoots, stored: StoredDataset, pair: int) -> dict[str, Any]:
    """The fields of `PairOut`; a 404 for an unknown pair."""
    tables = roots.tables(stored)
    if not 0 <= pair < tables.config.n_pairs:
        raise not_found()
    read = _Reader(stored, tables)
    question_id, source_id = (
        read.ids("pair_index", tables["pair_index"][pair, column], count)
        for column, count in ((0, "n_questions"), (1, "n_sources"))
    )
    cluster = read.ids("pair_cluster_id", tables["pair_cluster_id"][pair], "n_clusters")
    question = read.vectors("question_embs", question_id)
    (source,) = read.near(question, "source_embs", "sources", source_id)
    return {
        "pair": pair,
        "split": split_name(int(owners(roots, stored)[pair])),
        "cluster": int(cluster[0]),
        "relevance": float(tables["pair_relevance"][pair]),
        "distance": float(tables["centroid_distances"][pair]),
        "question_id": int(question_id[0]),
        "question": texts_of(stored, "questions", question_id)[int(question_id[0])],
        "source": source,
        "keywords": _keywords(read, question, pair),
        "negatives": _negatives(read, question, pair, source["similarity"]),
        "steering": _steering(read, pair, question, source_id, cluster),
        "variants": _variants(tables, pair),
    }


class _Reader:
    """Reads rows of the tables after checking their ids."""

    def __init__(self, stored: StoredDataset, tables: Tables) -> None:
        self.stored, self.tables = stored, tables

    def ids(self, name: str, ids: Any, count: str) -> Any:
        """Ids of a table as an array; a 409 if one is not below the count in config.json."""
        import numpy as np

        below = self.tables.config.counts[count]
        return checked_ids(self.stored, self.tables, name, np.atleast_1d(ids), below)

    def vectors(self, name: str, rows: Any) -> Floats:
        """Rows of a table of embeddings as float64."""
        import numpy as np

        return np.asarray(self.tables[name][rows], dtype=np.float64)

    def near(self, question: Floats, table: str, kind: Kind, ids: Any) -> list[dict[str, Any]]:
        """Rows as `RowOut`, with their cosine to the question."""
        similarity = numbers(_cosine(self.vectors(table, ids), question))
        texts = texts_of(self.stored, kind, ids)
        return [
            {"id": int(row), "text": texts[int(row)], "similarity": cosine}
            for row, cosine in zip(ids, similarity, strict=True)
        ]


def _cosine(rows: Floats, other: Floats) -> Floats:
    """Cosine of each row with `other` (one row, or equally many); 0 if a norm is 0."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(other, axis=1)
    dots = (rows * other).sum(axis=1)
    cosines: Floats = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 1e-30)
    return cosines


def _keywords(read: _Reader, question: Floats, pair: int) -> list[dict[str, Any]]:
    lists = read.tables["pair_keyword_ids"]
    first, last = (int(lists.offsets[at]) for at in (pair, pair + 1))
    if not 0 <= first <= last <= len(lists.values):
        label = read.tables.label("pair_keyword_ids")
        raise damaged(read.stored, f"{label}[{pair}] has the offsets {first} to {last}")
    keywords = lists.values[first : min(last, first + MOST_KEYWORDS)]
    ids = read.ids("pair_keyword_ids", keywords, "n_keywords")
    return read.near(question, "keyword_embs", "keywords", ids)


def _negatives(read: _Reader, question: Floats, pair: int, positive: Any) -> list[dict[str, Any]]:
    tables = read.tables
    ids = read.ids("hard_negatives", tables["hard_negatives"][pair], "n_sources")
    rows = read.near(question, "source_embs", "sources", ids)
    tiers = tables["negative_tiers"][pair].tolist()
    return [
        {**row, "tier": tier, "place": position, "of_positive": _share(row["similarity"], positive)}
        for position, (row, tier) in enumerate(zip(rows, tiers, strict=True))
    ]


def _share(similarity: Any, positive: Any) -> float | None:
    # A text is "NaN" or an infinity, as `numbers` writes them.
    if isinstance(similarity, str) or isinstance(positive, str) or positive <= 0:
        return None
    return float(similarity / positive)


def _steering(
    read: _Reader, pair: int, question: Floats, source_id: Any, cluster: Any
) -> list[dict[str, Any]]:
    import numpy as np

    vectors = np.concatenate([read.vectors(name, [pair]) for name in VARIANTS.values()])
    others = {
        "to_question": question,
        "to_source": read.vectors("source_embs", source_id),
        "to_centroid": read.vectors("centroid_embs", cluster),
    }
    columns = {name: numbers(_cosine(vectors, other)) for name, other in others.items()}
    lengths = numbers(np.linalg.norm(vectors, axis=1))
    return [
        {
            "variant": variant,
            "length": lengths[at],
            **{name: column[at] for name, column in columns.items()},
        }
        for at, variant in enumerate(VARIANTS)
    ]


def _variants(tables: Tables, pair: int) -> list[int]:
    import numpy as np

    from midstep.data.steering.curriculum import curriculum_from

    config = tables.config
    schedule = curriculum_from(config.curriculum)
    distance = np.asarray(tables["centroid_distances"][[pair]], dtype=np.float32)
    return [
        int(
            schedule.variants(
                config.random_seed, epoch, np.array([pair]), distance, config.steering_probabilities
            )[0]
        )
        for epoch in range(EPOCHS)
    ]
