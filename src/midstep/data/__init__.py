"""The order of samples, the sources they come from, and embedding datasets.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.data.build.audit import AuditReport, audit_dataset
    from midstep.data.build.building import build_dataset
    from midstep.data.build.checking import validate_dataset
    from midstep.data.build.config import BuildConfig
    from midstep.data.build.encoders import Encoder, HashingEncoder, sentence_encoder
    from midstep.data.build.other_kinds import build_cluster_dataset, build_triplets
    from midstep.data.embedding.cluster_labeled import ClusterLabeledDataset
    from midstep.data.embedding.cluster_labeled_writing import ClusterSamples, write_cluster_dataset
    from midstep.data.embedding.config import DatasetConfig
    from midstep.data.embedding.curriculum import Bands, DistanceGated, LinearZero
    from midstep.data.embedding.dataset import JASPERSteeringDataset
    from midstep.data.embedding.layout import Ragged
    from midstep.data.embedding.loader import SteeringLoader, create_loader
    from midstep.data.embedding.tables import Tables, open_tables
    from midstep.data.embedding.validation import validate_first_batch
    from midstep.data.embedding.writing import convert, write_dataset
    from midstep.data.rag.base import RAGDatasetBase
    from midstep.data.rag.chroma_store import ChromaStore
    from midstep.data.rag.corpus import Corpus
    from midstep.data.rag.exact_store import ExactStore
    from midstep.data.rag.judging import SimilarityJudge, label_triplets
    from midstep.data.rag.metrics import ranks_of_relevant, retrieval_metrics
    from midstep.data.rag.passages import PassageDataset
    from midstep.data.rag.stores import StoreRecall, VectorStore, store_recall
    from midstep.data.rag.triplets import Triplet, read_triplets, write_triplets

__all__ = [
    "AuditReport",
    "Bands",
    "BuildConfig",
    "ChromaStore",
    "ClusterLabeledDataset",
    "ClusterSamples",
    "Corpus",
    "DatasetConfig",
    "DistanceGated",
    "Encoder",
    "ExactStore",
    "HashingEncoder",
    "JASPERSteeringDataset",
    "LinearZero",
    "PassageDataset",
    "RAGDatasetBase",
    "Ragged",
    "SimilarityJudge",
    "SteeringLoader",
    "StoreRecall",
    "Tables",
    "Triplet",
    "VectorStore",
    "audit_dataset",
    "build_cluster_dataset",
    "build_dataset",
    "build_triplets",
    "convert",
    "create_loader",
    "label_triplets",
    "open_tables",
    "ranks_of_relevant",
    "read_triplets",
    "retrieval_metrics",
    "sentence_encoder",
    "store_recall",
    "validate_dataset",
    "validate_first_batch",
    "write_cluster_dataset",
    "write_dataset",
    "write_triplets",
]

_HOME = {
    "AuditReport": ".build.audit",
    "Bands": ".embedding.curriculum",
    "BuildConfig": ".build.config",
    "ChromaStore": ".rag.chroma_store",
    "ClusterLabeledDataset": ".embedding.cluster_labeled",
    "ClusterSamples": ".embedding.cluster_labeled_writing",
    "Corpus": ".rag.corpus",
    "DatasetConfig": ".embedding.config",
    "DistanceGated": ".embedding.curriculum",
    "Encoder": ".build.encoders",
    "ExactStore": ".rag.exact_store",
    "HashingEncoder": ".build.encoders",
    "JASPERSteeringDataset": ".embedding.dataset",
    "LinearZero": ".embedding.curriculum",
    "PassageDataset": ".rag.passages",
    "RAGDatasetBase": ".rag.base",
    "Ragged": ".embedding.layout",
    "SimilarityJudge": ".rag.judging",
    "SteeringLoader": ".embedding.loader",
    "StoreRecall": ".rag.stores",
    "Tables": ".embedding.tables",
    "Triplet": ".rag.triplets",
    "VectorStore": ".rag.stores",
    "audit_dataset": ".build.audit",
    "build_cluster_dataset": ".build.other_kinds",
    "build_dataset": ".build.building",
    "build_triplets": ".build.other_kinds",
    "convert": ".embedding.writing",
    "create_loader": ".embedding.loader",
    "label_triplets": ".rag.judging",
    "open_tables": ".embedding.tables",
    "ranks_of_relevant": ".rag.metrics",
    "read_triplets": ".rag.triplets",
    "retrieval_metrics": ".rag.metrics",
    "sentence_encoder": ".build.encoders",
    "store_recall": ".rag.stores",
    "validate_dataset": ".build.checking",
    "validate_first_batch": ".embedding.validation",
    "write_cluster_dataset": ".embedding.cluster_labeled_writing",
    "write_dataset": ".embedding.writing",
    "write_triplets": ".rag.triplets",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
