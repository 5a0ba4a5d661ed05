"""`PassageDataset`: triplets from questions and the passages that answer them.

It reads JSON Lines with a question and a passage per line (BoolQ and many others have this form),
or pairs from memory. All passages of the same question are relevant to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from midstep.core.errors import DatasetError
from midstep.data.rag.rag_dataset import RAGDatasetBase
from midstep.data.rag.triplets import Corpus
from midstep.data.rag.vector_stores import Record, VectorStore, as_rows
from midstep.data.text.encoders import Encoder, HashingEncoder, encode_checked
from midstep.data.text.normalise import NumberedTexts
from midstep.data.text.text_files import parse_json

PAGE = 512
"""Texts encoded and added together; a kill loses at most these."""
SAME_ENCODER = 0.99
"""Smallest cosine of two encodings of one text by the same encoder. Rounding changes the cosine by
far less than 0.01, another encoder by more."""


class PassageDataset(RAGDatasetBase):
    """Triplets from pairs of a question and a passage that answers it.

    Args:
        pairs: a JSON Lines file, or pairs of texts.
        encoder: encodes questions and passages; by default the hashing encoder.
        store: by default an exact store in memory. If a `ChromaStore` holds passages already,
            only the missing ones are encoded.
        seed: seed of drawn negatives and of the order inside a triplet.
        limit: how many lines to read at most.
        question_key: key of the question in a line.
        passage_key: key of the passage in a line.

    >>> pairs = [
    ...     ("is the sea salty", "Sea water holds salt."),
    ...     ("is the sea salty", "Salt makes the sea taste."),
    ...     ("do birds fly", "Most birds can fly."),
    ... ]
    >>> dataset = PassageDataset(pairs)
    >>> dataset.validate().relevant_pairs
    3
    >>> [len(list(dataset.generate_samples(kind, k=1))) for kind in ("positive", "contrastive")]
    [1, 3]
    """

    def __init__(
        self,
        pairs: str | Path | Iterable[tuple[str, str]],
        *,
        encoder: Encoder | None = None,
        store: VectorStore | None = None,
        seed: int = 0,
        limit: int | None = None,
        question_key: str = "question",
        passage_key: str = "passage",
    ) -> None:
        super().__init__(store, seed=seed)
        if isinstance(pairs, str | Path):
            self._pairs = list(read_pairs(pairs, question_key, passage_key, limit=limit))
        else:
            self._pairs = list(pairs)[:limit]
        self.encoder: Encoder = HashingEncoder() if encoder is None else encoder

    def load(self) -> Corpus:
        """Number the texts in the order in which they come; spellings of one text count once."""
        questions, sources = NumberedTexts(), NumberedTexts()
        relevant: dict[str, dict[str, None]] = {}  # a dict keeps the order and drops repeats
        for question, passage in self._pairs:
            answers = relevant.setdefault(f"q{questions.add(question)}", {})
            answers[f"s{sources.add(passage)}"] = None
        source_texts = {f"s{number}": text for number, text in enumerate(sources.texts)}
        fill_store(self.store, source_texts, self.encoder)
        return Corpus(
            questions={f"q{number}": text for number, text in enumerate(questions.texts)},
            question_embeddings=encode_checked(self.encoder, questions.texts),
            sources=source_texts,
            relevant={name: tuple(answers) for name, answers in relevant.items()},
        )


def fill_store(store: VectorStore, texts: Mapping[str, str], encoder: Encoder) -> int:
    """Encode and add the texts that the store lacks, and return how many.

    Raises:
        DatasetError: if the store has another text under an id, or vectors of another encoder.
    """
    added, names = 0, list(texts)
    _check_encoder(store.get(names[:1]), encoder)
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        known = store.get(page)
        for name, record in known.items():
            if record.text != texts[name]:
                raise DatasetError(
                    f"the store holds another text as {name!r}: {record.text[:80]!r}, expected "
                    f"{texts[name][:80]!r}; use a separate store for each set of texts"
                )
        missing = [name for name in page if name not in known]
        if missing:
            lines = [texts[name] for name in missing]
            store.add(missing, encode_checked(encoder, lines), lines)
            added += len(missing)
    return added


def _check_encoder(known: Mapping[str, Record], encoder: Encoder) -> None:
    """Encode a stored text again: vectors of two encoders cannot be compared."""
    for name, record in known.items():
        vector = encode_checked(encoder, [record.text])
        is_same_width = vector.shape[1] == len(record.embedding)
        if not is_same_width or float(as_rows(vector, None)[0] @ record.embedding) < SAME_ENCODER:
            raise DatasetError(
                f"the store holds a vector of {name!r} that is not of the encoder {encoder.name}; "
                "use a separate store for each encoder"
            )


def read_pairs(
    path: str | Path,
    question_key: str = "question",
    passage_key: str = "passage",
    *,
    limit: int | None = None,
) -> Iterator[tuple[str, str]]:
    """Question and passage of every line of a JSON Lines file."""
    if not Path(path).is_file():
        raise DatasetError(f"{path} does not exist; name a JSON Lines file of texts")
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            if limit is not None and number > limit:
                return
            where = f"{Path(path).name}:{number}"
            row = parse_json(line, where)
            values: dict[str, Any] = row if isinstance(row, dict) else {}
            question, passage = (values.get(key, "") for key in (question_key, passage_key))
            if not all(isinstance(each, str) and each.strip() for each in (question, passage)):
                raise DatasetError(
                    f"{where} has no texts {question_key!r} and {passage_key!r}: {line[:80]!r}"
                )
            yield question, passage
