"""The order of samples, the sources they come from, and embedding datasets.

The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.data.build.build_config import BuildConfig as BuildConfig
    from midstep.data.build.builders import build_cluster_dataset as build_cluster_dataset
    from midstep.data.build.builders import build_dataset as build_dataset
    from midstep.data.build.builders import build_triplets as build_triplets
    from midstep.data.build.leak_audit import AuditReport as AuditReport
    from midstep.data.build.leak_audit import audit_dataset as audit_dataset
    from midstep.data.cluster_labels.cluster_dataset import (
        ClusterLabeledDataset as ClusterLabeledDataset,
    )
    from midstep.data.cluster_labels.cluster_dataset_writer import ClusterSamples as ClusterSamples
    from midstep.data.cluster_labels.cluster_dataset_writer import (
        write_cluster_dataset as write_cluster_dataset,
    )
    from midstep.data.rag.chroma_store import ChromaStore as ChromaStore
    from midstep.data.rag.judges import SimilarityJudge as SimilarityJudge
    from midstep.data.rag.judges import label_triplets as label_triplets
    from midstep.data.rag.passages import PassageDataset as PassageDataset
    from midstep.data.rag.rag_dataset import RAGDatasetBase as RAGDatasetBase
    from midstep.data.rag.retrieval_metrics import ranks_of_relevant as ranks_of_relevant
    from midstep.data.rag.retrieval_metrics import retrieval_metrics as retrieval_metrics
    from midstep.data.rag.triplets import Corpus as Corpus
    from midstep.data.rag.triplets import Triplet as Triplet
    from midstep.data.rag.triplets import read_triplets as read_triplets
    from midstep.data.rag.triplets import write_triplets as write_triplets
    from midstep.data.rag.vector_stores import ExactStore as ExactStore
    from midstep.data.rag.vector_stores import StoreRecall as StoreRecall
    from midstep.data.rag.vector_stores import VectorStore as VectorStore
    from midstep.data.rag.vector_stores import store_recall as store_recall
    from midstep.data.ragged import Ragged as Ragged
    from midstep.data.steering.curriculum import Bands as Bands
    from midstep.data.steering.curriculum import DistanceGated as DistanceGated
    from midstep.data.steering.curriculum import LinearZero as LinearZero
    from midstep.data.steering.dataset_checks import validate_dataset as validate_dataset
    from midstep.data.steering.dataset_checks import validate_first_batch as validate_first_batch
    from midstep.data.steering.steering_dataset import (
        JASPERSteeringDataset as JASPERSteeringDataset,
    )
    from midstep.data.steering.steering_loader import SteeringLoader as SteeringLoader
    from midstep.data.steering.steering_loader import create_loader as create_loader
    from midstep.data.steering.storage.dataset_config import DatasetConfig as DatasetConfig
    from midstep.data.steering.storage.dataset_writer import convert as convert
    from midstep.data.steering.storage.dataset_writer import write_dataset as write_dataset
    from midstep.data.steering.storage.tables import Tables as Tables
    from midstep.data.steering.storage.tables import open_tables as open_tables
    from midstep.data.text.encoders import Encoder as Encoder
    from midstep.data.text.encoders import HashingEncoder as HashingEncoder
    from midstep.data.text.encoders import sentence_encoder as sentence_encoder

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".build.build_config": "BuildConfig",
        ".build.builders": "build_cluster_dataset build_dataset build_triplets",
        ".build.leak_audit": "AuditReport audit_dataset",
        ".cluster_labels.cluster_dataset": "ClusterLabeledDataset",
        ".cluster_labels.cluster_dataset_writer": "ClusterSamples write_cluster_dataset",
        ".rag.chroma_store": "ChromaStore",
        ".rag.judges": "SimilarityJudge label_triplets",
        ".rag.passages": "PassageDataset",
        ".rag.rag_dataset": "RAGDatasetBase",
        ".rag.retrieval_metrics": "ranks_of_relevant retrieval_metrics",
        ".rag.triplets": "Corpus Triplet read_triplets write_triplets",
        ".rag.vector_stores": "ExactStore StoreRecall VectorStore store_recall",
        ".ragged": "Ragged",
        ".steering.curriculum": "Bands DistanceGated LinearZero",
        ".steering.dataset_checks": "validate_dataset validate_first_batch",
        ".steering.steering_dataset": "JASPERSteeringDataset",
        ".steering.steering_loader": "SteeringLoader create_loader",
        ".steering.storage.dataset_config": "DatasetConfig",
        ".steering.storage.dataset_writer": "convert write_dataset",
        ".steering.storage.tables": "Tables open_tables",
        ".text.encoders": "Encoder HashingEncoder sentence_encoder",
    },
)
