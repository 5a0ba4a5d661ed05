"""Small trainings, runs and datasets that blocks of the documents expect to be there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import midstep
from tests.data.build.text_samples import topic_rows, write_csv
from tests.data.cluster_labels.test_cluster_dataset import make_samples
from tests.data.steering.table_samples import sample_config, sample_tables
from tests.facts.stored_runs import write_run
from tests.server.listed import listing

Names = dict[str, Any]


def small_loader(count: int = 24) -> DataLoader[Any]:
    data = TensorDataset(torch.randn(count, 8), torch.arange(count) % 3)
    return DataLoader(data, batch_size=8, shuffle=True)


@pytest.fixture
def classifier_names() -> Names:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()

    def train(batch: Any) -> None:
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()
        optimizer.zero_grad()

    return {
        "model": model,
        "optimizer": optimizer,
        "loss_fn": loss_fn,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5),
        "loader": small_loader(),
        "val_loader": small_loader(8),
        "train": train,
        "validate": lambda: list(small_loader(8)),
    }


@pytest.fixture
def gan_names() -> Names:
    nets = nn.Linear(4, 2), nn.Linear(2, 1)
    optimizers = [torch.optim.Adam(net.parameters()) for net in nets]
    args = SimpleNamespace(best=1.0)
    return {
        "generator": nets[0],
        "discriminator": nets[1],
        "optimizer_g": optimizers[0],
        "optimizer_d": optimizers[1],
        "loader": small_loader(),
        "average": torch.optim.swa_utils.AveragedModel(nets[0]),
        "returns": np.zeros(10),
        "args": args,
        "set_best": lambda value: setattr(args, "best", value),
        "env": Walk(),
    }


class Walk:
    """An environment as `env_state` takes it."""

    def __init__(self) -> None:
        self.position = 0

    def reset(self) -> int:
        self.position = 0
        return self.position

    def step(self, action: int) -> int:
        self.position += action
        return self.position


@pytest.fixture
def controller_names() -> Names:
    return {"controller": midstep.DebugController()}


@pytest.fixture
def session_names(classifier_names: Names) -> Iterator[Names]:
    names = classifier_names
    session = midstep.Session(names["model"], names["optimizer"], names["loss_fn"], names["loader"])
    with session:
        yield {"session": session, "loss_fn": names["loss_fn"]}


@pytest.fixture
def attached_names(classifier_names: Names) -> Iterator[Names]:
    names = classifier_names
    with midstep.attach(names["model"], names["optimizer"], names["loader"]) as run:
        yield {"run": run, "evaluate": lambda model: None, "model": names["model"]}


@pytest.fixture
def live_run_names(classifier_names: Names) -> Iterator[Names]:
    """A run that trains in another thread, and is found below `outputs/runs`."""
    from tests.live.trainer import in_thread

    names = classifier_names

    def loop(run: Any) -> None:
        for _ in run.epochs(10**6):
            for batch in names["loader"]:
                names["train"](batch)
                run.log(loss=1.0)

    attached = midstep.attach(
        names["model"], names["optimizer"], names["loader"], start_paused=True
    )
    with in_thread(attached, loop):
        while not attached.controller.get_state()["parked"]:
            pass
        yield {}


@pytest.fixture
def stored_names() -> Names:
    for name, epochs, lr in (("baseline", 3, 0.1), ("short", 1, 0.1), ("other", 3, 0.2)):
        write_run(Path("outputs/runs") / name, epochs=epochs, lr=lr)
    return {}


@pytest.fixture
def stored_server_names(stored_names: Names, monkeypatch) -> Iterator[Names]:
    """A server of these runs, at whatever address the block gives."""
    client = midstep.Client
    with listing(Path("outputs")) as served:
        monkeypatch.setattr(
            midstep, "Client", lambda _url: client(served.url, token=served.tokens.control)
        )
        yield stored_names


@pytest.fixture
def competing_names() -> Iterator[Names]:
    """A layer that competes, in an attached run."""
    encoder = nn.Linear(8, 4)
    model = nn.Sequential()
    model.add_module("encoder", encoder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pushed = SimpleNamespace(
        get_step_metrics=lambda: {"win_rate": torch.zeros(4)},
        last_tensors=lambda: {"som_delta": torch.zeros(4, 8), "som_targets": torch.zeros(4, 8)},
    )
    with midstep.attach(model, optimizer, small_loader()) as run:
        yield {"run": run, "bcl": pushed}


# -- influence and datasets ------------------------------------------------------------------------


@pytest.fixture
def influence_names() -> Names:
    from midstep.influence import BatchRequest, FisherKernelPlan
    from midstep.influence.sampling import CharacterTokenizer, save_checkpoint
    from tests.influence.small_lm import ALPHABET, adamw, small_model

    model = small_model()
    folder = Path("outputs/arithmetic/step-100")
    save_checkpoint(folder, model, CharacterTokenizer(ALPHABET), adamw(model))
    params = {"batch_size_prompts": 3, "completions_per_prompt": 2, "seed": 4}
    request = BatchRequest(
        kind="custom_sequence", params={"prompt": "1+1=", "response": "2"}, name="probe"
    )
    plan = FisherKernelPlan(update=BatchRequest(kind="update", params=params), requests=(request,))
    return {"plan": plan, "request": request}


@pytest.fixture
def steering_names() -> Names:
    from midstep.data import write_dataset

    config = sample_config(n_pairs=600)
    write_dataset("data/boolq", sample_tables(config), config)
    return {
        "state": None,
        "train": lambda batch: None,
        "model": lambda question, steering: question + steering,
        "loss_of": lambda moved, target, negatives: moved.square().mean(),
    }


@pytest.fixture
def table_names() -> Names:
    write_csv(Path("pairs.csv"), topic_rows(300))
    return {}


@pytest.fixture
def table_set_names() -> Names:
    config = sample_config(embedding_dim=384, n_neg=12)
    return {
        "tables": sample_tables(config),
        "pairs": range(config.n_pairs),
        "questions": range(config.n_questions),
        "sources": range(config.n_sources),
        "keywords": range(config.n_keywords),
        "centroids": range(config.n_clusters),
    }


@pytest.fixture
def cluster_array_names() -> Names:
    chance = np.random.default_rng(0)
    return {
        "embeddings": chance.standard_normal((3, 6), dtype=np.float32),
        "steering": chance.standard_normal((3, 6), dtype=np.float32),
        "centroids": chance.standard_normal((4, 6), dtype=np.float32),
        "terms": chance.standard_normal((5, 6), dtype=np.float32),
        "texts": ["a", "b", "c"],
        "urls": ["x", "y", "z"],
    }


@pytest.fixture
def cluster_names() -> Names:
    from midstep.data import ClusterLabeledDataset, write_cluster_dataset

    write_cluster_dataset("data/domains", make_samples())
    dataset = ClusterLabeledDataset("data/domains")
    width, clusters = dataset[0][0].numel(), dataset[0][2].numel()
    return {
        "dataset": dataset,
        "model": nn.Linear(width, clusters),
        "cross_entropy": nn.functional.cross_entropy,
    }


@pytest.fixture
def passage_names() -> Names:
    from midstep.data import ChromaStore, HashingEncoder

    encode = HashingEncoder(32).encode
    lines = [
        {"question": f"What is thing {i}?", "passage": f"Thing {i} is number {i} of twenty."}
        for i in range(20)
    ]
    Path("boolq.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with ChromaStore("stores/boolq"):
        pass
    return {"encode": encode}
