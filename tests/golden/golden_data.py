"""Golden datasets and influence results: how they were made, and what readers say about them."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from midstep.data import (
    ClusterLabeledDataset,
    ClusterSamples,
    DatasetConfig,
    JASPERSteeringDataset,
    Ragged,
    create_loader,
    open_tables,
    validate_dataset,
    write_cluster_dataset,
    write_dataset,
)
from midstep.influence import BatchRequest, FisherKernelConfig, FisherKernelPlan, FisherKernelRunner
from midstep.influence.sampling import (
    CharacterTokenizer,
    load_batch,
    load_checkpoint,
    save_checkpoint,
)
from midstep.influence.study.results_file import load_results, read_results_json
from midstep.influence.study.workspace_files import load_workspace
from midstep.models.causal_lm import CausalLM, CausalLMConfig
from tests.golden.golden_copy import GOLDEN
from tests.golden.scrub import scrub_run
from tests.golden.trainings import digest, digests

DATASETS, INFLUENCE = GOLDEN / "datasets", GOLDEN / "influence"
FORMS = ("memmap", "pt", "hdf5")
DIM, PAIRS, NEGATIVES, BATCH = 4, 30, 3, 5
EPOCHS = (0, 1, 7)
LABELS = ("source", "steering", "combined")
SAMPLES, CLUSTERS = 12, 3


# -- steering dataset -----------------------------------------------------------------------------


def make_datasets(folder: Path) -> None:
    """The same dataset in three forms, and a cluster-labelled one."""
    folder.mkdir()
    for form in FORMS:
        write_dataset(folder / form, _tables(), _config(), form)  # type: ignore[arg-type]
    write_cluster_dataset(folder / "clusters", _samples(), temperature=0.2, combined_weight=0.25)


def _config() -> DatasetConfig:
    return DatasetConfig(
        embedding_dim=DIM,
        n_neg=NEGATIVES,
        n_pairs=PAIRS,
        n_questions=12,
        n_sources=16,
        n_keywords=6,
        n_clusters=4,
        steering_probabilities={"zero": 0.25, "centroid": 0.25, "keyword": 0.25, "residual": 0.25},
        random_seed=7,
    )


def _tables() -> dict[str, Any]:
    """Random tables that obey every rule; the sources are float16."""
    config, chance = _config(), np.random.default_rng(3)

    def floats(*shape: int) -> Any:
        return chance.standard_normal(shape).astype(np.float32)

    sources = chance.integers(config.n_sources, size=PAIRS)
    shift = np.argsort(chance.random((PAIRS, config.n_sources - 1)), axis=1)[:, :NEGATIVES] + 1
    order = chance.permutation(PAIRS)
    keywords = [
        chance.integers(config.n_keywords, size=count).tolist()
        for count in chance.integers(4, size=PAIRS)
    ]
    return {
        "train_idx": np.sort(order[:22]),
        "val_idx": np.sort(order[22:26]),
        "test_idx": np.sort(order[26:]),
        "question_embs": floats(config.n_questions, DIM),
        "source_embs": floats(config.n_sources, DIM).astype(np.float16),
        "keyword_embs": floats(config.n_keywords, DIM),
        "centroid_embs": floats(config.n_clusters, DIM),
        "pair_index": np.stack([chance.integers(config.n_questions, size=PAIRS), sources], axis=1),
        "pair_cluster_id": chance.integers(config.n_clusters, size=PAIRS),
        "pair_relevance": chance.random(PAIRS).astype(np.float32),
        "pair_keyword_ids": Ragged.from_lists(keywords),
        "hard_negatives": (sources[:, None] + shift) % config.n_sources,
        "negative_tiers": np.sort(chance.integers(1, 5, size=(PAIRS, NEGATIVES)), axis=1),
        "steering_centroid": floats(PAIRS, DIM),
        "steering_keyword_weighted": floats(PAIRS, DIM),
        "steering_residual": floats(PAIRS, DIM),
        "centroid_distances": (chance.random(PAIRS) * 2).astype(np.float32),
    }


def dataset_answers(folder: Path) -> dict[str, Any]:
    """What is read of a steering dataset: tables, fingerprint, batches in order."""
    tables = open_tables(folder)
    dataset = JASPERSteeringDataset(folder, "train")
    loader = create_loader(folder, "train", batch_size=BATCH, seed=11, distributed=False)
    epochs = {}
    for epoch in EPOCHS:
        loader.set_epoch(epoch)
        epochs[str(epoch)] = [_batch(batch) for batch in loader]
    return {
        "tables": {name: tables.digest(name) for name in sorted(tables)},
        "fingerprint": dataset.fingerprint(),
        "pairs": {
            split: JASPERSteeringDataset(folder, split).pair_ids.tolist()
            for split in ("train", "val", "test")
        },
        "problems": validate_dataset(folder),
        "batches": epochs,
        "validation": [_batch(b) for b in create_loader(folder, "val", 3, distributed=False)],
        **_continued(folder),
    }


def _batch(batch: Mapping[str, Any]) -> dict[str, Any]:
    return {"pairs": batch["pair_id"].tolist(), **digests(batch)}


def _continued(folder: Path) -> dict[str, Any]:
    """The state of a loader in the middle of an epoch, and the batches after it."""
    first = create_loader(folder, "train", batch_size=BATCH, seed=11, distributed=False)
    first.set_epoch(1)
    batches = iter(first)
    next(batches)
    next(batches)
    state = first.state_dict()
    del batches
    second = create_loader(folder, "train", batch_size=BATCH, seed=11, distributed=False)
    second.load_state_dict(json.loads(json.dumps(state)))
    return {"state": state, "rest": [_batch(batch) for batch in second]}


# -- cluster-labelled dataset ---------------------------------------------------------------------


def _samples() -> ClusterSamples:
    chance = np.random.default_rng(1)
    steering = chance.standard_normal((SAMPLES, DIM)).astype(np.float32)
    steering[5] = 0
    return ClusterSamples(
        base_embeddings=chance.standard_normal((SAMPLES, DIM)).astype(np.float16),
        steering_embeddings=steering,
        centroids=chance.standard_normal((CLUSTERS, DIM)).astype(np.float32),
        suggestion_embeddings=chance.standard_normal((4, DIM)).astype(np.float32),
        suggestions=[[row % 4, (row + 1) % 4][: row % 3] for row in range(SAMPLES)],
        suggestion_terms=["law", "sea", "sky", "sport"],
        texts=[f"text {row} = 雪" for row in range(SAMPLES)],
        metadata=[{"row": row} for row in range(SAMPLES)],
        cluster_names=["one", "two", "three"],
    )


def cluster_answers(folder: Path) -> dict[str, Any]:
    """What is read of a cluster-labelled dataset."""
    answers: dict[str, Any] = {}
    for label_type in LABELS:
        dataset = ClusterLabeledDataset(folder, label_type)  # type: ignore[arg-type]
        base, steering, labels = dataset.batch([3, 0, 11, 5])
        answers[label_type] = {
            "fingerprint": dataset.fingerprint(),
            "counts": [len(dataset), dataset.n_clusters, dataset.embedding_dim],
            "inputs": [digest(base), digest(steering)],
            "labels": labels.tolist(),
            "metadata": dataset.metadata_of([0, 5]),
            "centroids": dataset.centroids.tolist(),
        }
        dataset.close()
    return answers


# -- influence ------------------------------------------------------------------------------------

ALPHABET = "0123456789+-="
PLAN = FisherKernelPlan(
    name="golden",
    update=BatchRequest(
        kind="update",
        params={
            "batch_size_prompts": 2,
            "completions_per_prompt": 4,
            "seed": 5,
            "reward_cfg": {"format_weight": 0.5},
            "advantage_cfg": {"scheme": "rloo"},
        },
    ),
    requests=(
        BatchRequest(
            kind="evaluation", params={"batch_size_prompts": 2, "seed": 1}, name="held out"
        ),
        BatchRequest(
            kind="custom_sequence", params={"prompt": "9+9=", "response": "18"}, name="nine"
        ),
    ),
    top_k=3,
    validate_rates=(1e-3, 1e-4),
)
RESULT = "20260101T000000Z_golden"


def make_influence(folder: Path) -> None:
    """A tiny language model with its optimizer, and the stored result of one plan."""
    folder.mkdir()
    model = _language_model()
    tokenizer = CharacterTokenizer(ALPHABET)
    save_checkpoint(folder / "checkpoint", model, tokenizer, _optimizer(model))
    made = run_plan(folder)
    shutil.move(made, folder / RESULT)
    shutil.rmtree(folder / "outputs")
    if (folder / RESULT / "facts").exists():
        scrub_run(folder / RESULT, "g00000000020")


def run_plan(folder: Path) -> Path:
    """Run the golden plan with the golden checkpoint in `folder`; gives the folder of results."""
    config = FisherKernelConfig(
        checkpoint=str(folder / "checkpoint"),
        prompt_set={"name": "arithmetic", "largest": 9},
        max_new_tokens=5,
        outputs=str(folder / "outputs"),
    )
    directory = FisherKernelRunner(config).run(PLAN).directory
    if directory is None:
        raise RuntimeError("the results of the golden plan were not written")
    return directory


def _language_model() -> CausalLM:
    vocabulary = CharacterTokenizer(ALPHABET).vocab_size
    config = CausalLMConfig(
        vocab_size=vocabulary, width=8, layers=1, heads=2, kv_heads=1, context=16
    )
    model = CausalLM(config)
    drawn = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.3)
    return model.double()


def _optimizer(model: CausalLM) -> torch.optim.AdamW:
    """It has a state: three steps on noise."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    drawn = torch.Generator().manual_seed(3)
    for _ in range(3):
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=drawn, dtype=torch.float64)
            parameter.grad = noise * 0.1
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def stored_answers(folder: Path) -> dict[str, Any]:
    """What is read of the stored result, with every array."""
    result = folder / RESULT
    loaded = load_results(result)
    answers = {
        "results.json": read_results_json(result),
        "batch": _generated(load_batch(result / "workspace.batch")),
        "workspace": _workspace(load_workspace(result / "workspace")),
        "requests": [_request(loaded, each) for each in loaded.requests],
        "validation": loaded.validation,
        "checkpoint": _checkpoint(folder / "checkpoint"),
    }
    return dict(_plain(answers))


def _generated(batch: Any) -> dict[str, Any]:
    return {
        "records": [dataclasses.asdict(record) for record in batch],
        "fingerprint": dataclasses.asdict(batch.fingerprint),
        "ids": list(batch.sequence_ids),
        "weights": batch.weights.tolist(),
        "advantages": batch.advantages.tolist(),
    }


def _workspace(workspace: Any) -> dict[str, Any]:
    return {
        "plan": workspace.plan.to_json(),
        "fingerprint": dataclasses.asdict(workspace.fingerprint),
        "step": dataclasses.asdict(workspace.step),
        "kernel_uu": workspace.kernel_uu.tolist(),
        "delta_u": {name: values.tolist() for name, values in workspace.delta_u.items()},
        "norms": workspace.norms.tolist(),
        "raw_norms": workspace.raw_norms.tolist(),
        "coverage": dict(workspace.coverage),
    }


def _request(loaded: Any, result: Any) -> dict[str, Any]:
    ids = loaded.workspace.batch.sequence_ids
    changed = result.what_if(loaded.workspace, {ids[0]: 2.0})
    return {
        "name": result.name,
        "kind": result.kind,
        "batch": _generated(result.batch),
        "delta": {name: values.tolist() for name, values in result.delta.items()},
        "kernel_eu": None if result.kernel_eu is None else result.kernel_eu.tolist(),
        "contributors": [[dataclasses.asdict(one) for one in row] for row in result.contributors],
        "what_if": {name: values.tolist() for name, values in changed.items()},
    }


def _checkpoint(folder: Path) -> dict[str, Any]:
    """The model; tokenizer and optimizer are needed by `sampled_again`."""
    return {"model": digest(load_checkpoint(folder)[0].state_dict())}


def _plain(value: Any) -> Any:
    """Values as JSON holds them; tensors by their numbers."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def sampled_again(folder: Path) -> dict[str, Any]:
    """The golden plan run anew with the golden checkpoint: tokens, weights and kernels."""
    loaded = load_results(run_plan(folder))
    answers = {
        "batch": _generated(loaded.workspace.batch),
        "workspace": _workspace(loaded.workspace),
        "requests": [_request(loaded, each) for each in loaded.requests],
    }
    return dict(_plain(answers))
