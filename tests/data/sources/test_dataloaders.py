"""Every source gives batches as its spec says, equal for equal settings, in disjoint splits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from midstep.core import set_all_seeds
from midstep.core.errors import ConfigError
from midstep.core.sample_spec import SampleSpec
from midstep.data.sources import (
    DataConfig,
    load_source,
    make_dataloaders,
    register_source,
    registry,
    source_names,
)
from midstep.data.sources.source_data import SPLITS, SourceData
from midstep.data.sources.synthetic import build_synthetic, generate_events

CONFIGS = {
    "synthetic": DataConfig(name="synthetic", n_events=200, batch_size=32),
    "digits": DataConfig(name="digits", batch_size=32),
    "mnist5k": DataConfig(name="mnist5k", batch_size=32),
}


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> DataConfig:
    return CONFIGS[request.param]


def shapes(spec: SampleSpec) -> dict[str, tuple[int, ...]]:
    match spec.kind:
        case "events":
            tokens = spec.n_tokens
            return {
                "tokens_cont": (tokens, spec.cont_dim),
                "tokens_id": (tokens,),
                "globals": (spec.globals,),
            }
        case "image":
            return {"image": (spec.channels, spec.height, spec.width)}
        case "vector":
            return {"x": (spec.features,)}


def rows_of(data: SourceData) -> Iterator[tuple[str, bytes]]:
    """The bytes of every sample, with its split."""
    for name in SPLITS:
        dataset = data.splits[name]
        batch = dataset.__getitems__(range(len(dataset)))
        for row in range(len(dataset)):
            yield name, b"".join(batch[key][row].numpy().tobytes() for key in sorted(batch))


def test_batches_have_the_shapes_of_the_spec(config: DataConfig) -> None:
    *loaders, meta = make_dataloaders(config, seed=3)
    spec = SampleSpec(**{field.name: meta[field.name] for field in fields(SampleSpec)})
    for name, loader in zip(SPLITS, loaders, strict=True):
        sizes = 0
        for batch in loader:
            label = batch.pop("label")
            assert label.dtype == torch.int64
            assert {key: tuple(value.shape[1:]) for key, value in batch.items()} == shapes(spec)
            assert all(torch.isfinite(value).all() for value in batch.values())
            sizes += len(label)
        assert sizes == meta["splits"][name] == len(loader.dataset)
    assert json.loads(json.dumps(meta, allow_nan=False)) == meta


def test_one_sample_equals_its_row_of_a_batch(config: DataConfig) -> None:
    dataset = load_source(config).splits["val"]
    batch = dataset.__getitems__([5, 1])
    for key, value in dataset[1].items():
        assert torch.equal(batch[key][1], value)


def test_equal_settings_give_equal_data_in_equal_order(config: DataConfig) -> None:
    first, second, other = (
        torch.cat([batch["label"] for batch in make_dataloaders(config, seed=seed)[0]])
        for seed in (1, 1, 2)
    )
    rows = [list(rows_of(load_source(config))) for _ in range(2)]
    assert rows[0] == rows[1]
    assert torch.equal(first, second)
    if config.name != "synthetic":  # its training labels are all 0
        assert not torch.equal(first, other)


def test_the_fingerprint_tells_data_apart_and_ignores_the_rest(config: DataConfig) -> None:
    original = load_source(config).fingerprint
    assert load_source(replace(config, batch_size=7, num_workers=1)).fingerprint == original
    assert load_source(replace(config, seed=43)).fingerprint != original


def test_no_sample_is_in_two_splits(config: DataConfig) -> None:
    splits: dict[bytes, set[str]] = {}
    for name, row in rows_of(load_source(config)):
        splits.setdefault(row, set()).add(name)
    assert {len(names) for names in splits.values()} == {1}


def test_building_a_source_draws_from_no_global_generator(config: DataConfig) -> None:
    set_all_seeds(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    loader, *_ = make_dataloaders(config, seed=1)
    next(iter(loader))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def test_workers_give_the_same_batches() -> None:
    config = CONFIGS["synthetic"]
    alone = list(make_dataloaders(config, seed=1)[0])
    loader = make_dataloaders(replace(config, num_workers=1), seed=1)[0]
    for ours, theirs in zip(alone, loader, strict=True):
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    del loader._iterator  # ends the persistent workers


# -- synthetic events ---------------------------------------------------------------------------


def test_zscores_of_events_come_from_train_alone() -> None:
    config = CONFIGS["synthetic"]
    data = load_source(config)
    train = data.splits["train"].__getitems__(range(len(data.splits["train"])))
    real = train["tokens_cont"][train["tokens_id"] > 0].double()
    assert torch.allclose(real.mean(dim=0), torch.zeros(4).double(), atol=1e-5)
    assert torch.allclose(real.std(dim=0, correction=0), torch.ones(4).double(), atol=1e-5)
    assert (train["tokens_cont"][train["tokens_id"] == 0] == 0).all()
    raw = generate_events(config.seed, "test", len(data.splits["test"]))
    scale = data.meta["normalisation"]["tokens_cont"]
    test = data.splits["test"].__getitems__(range(len(data.splits["test"])))
    restored = test["tokens_cont"].double() * torch.tensor(scale["std"]).double()
    restored += torch.tensor(scale["mean"]).double()
    is_real = raw["tokens_id"] > 0
    np.testing.assert_allclose(
        restored.numpy()[is_real], raw["tokens_cont"][is_real], rtol=1e-4, atol=1e-3
    )


def test_anomalies_are_planted_in_test_alone() -> None:
    data = load_source(replace(CONFIGS["synthetic"], n_events=1_000))
    labels = {
        name: data.splits[name].__getitems__(range(len(data.splits[name])))["label"]
        for name in SPLITS
    }
    assert {name: int(each.sum()) for name, each in labels.items()} == {
        "train": 0,
        "val": 0,
        "test": 10,
    }


def test_normal_events_obey_the_relations_that_anomalies_break() -> None:
    events = generate_events(1, "test", 300)
    momenta, energies = events["tokens_cont"][..., :3], events["tokens_cont"][..., 3]
    masses2 = energies.astype(np.float64) ** 2 - np.square(momenta, dtype=np.float64).sum(axis=-1)
    is_off_shell = (np.abs(masses2) > 30).any(axis=1)
    missing = np.abs(events["globals"] + momenta[..., :2].sum(axis=1)).max(axis=1)
    normal = events["label"] == 0
    assert not is_off_shell[normal].any()
    assert is_off_shell[~normal].sum() == 10
    assert missing.max() < 4


# -- names --------------------------------------------------------------------------------------


def test_an_unknown_source_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="'digts', did you mean 'digits'") as caught:
        make_dataloaders(DataConfig(name="digts"))
    assert "\n" not in str(caught.value)


def test_a_source_of_another_package_is_used_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))
    register_source("mine", build_synthetic)
    assert "mine" in source_names()
    *_, meta = make_dataloaders(DataConfig(name="mine", n_events=50))
    assert meta["splits"]["train"] == 40
    with pytest.raises(ConfigError, match="already"):
        register_source("digits", build_synthetic)


def test_an_entry_point_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("theirs", "midstep.data.sources.synthetic:build_synthetic", registry.GROUP),
        EntryPoint("broken", "midstep.data.sources.synthetic:build_nothing", registry.GROUP),
    ]

    def entry_points(*, group: str, name: str | None = None) -> list[EntryPoint]:
        return [each for each in entries if each.group == group and name in (None, each.name)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    assert {"theirs", "broken"} < set(source_names())
    assert load_source(DataConfig(name="theirs", n_events=50)).spec.kind == "events"
    with pytest.raises(ConfigError, match="'broken' of another package cannot be loaded"):
        load_source(DataConfig(name="broken"))


DOCS = Path(__file__).parents[3] / "docs"


def run_example(text: str) -> dict[str, Any]:
    [example] = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.M)
    names: dict[str, Any] = {}
    exec(example, names)
    return names


def test_the_examples_of_the_page_run() -> None:
    names = run_example((DOCS / "reference" / "data-sources.md").read_text("utf-8"))
    assert names["batch"]["image"].shape == (64, 1, 8, 8)


def test_the_source_of_the_document_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))
    page = (DOCS / "extend.md").read_text("utf-8")
    names = run_example(page.split("\n## A data source\n")[1])
    assert (names["meta"]["features"], names["meta"]["splits"]["val"]) == (32, 100)
    assert next(iter(names["test"]))["x"].shape == (100, 32)


def test_an_automatic_batch_size_must_be_found_first() -> None:
    with pytest.raises(ConfigError, match="find_batch_size"):
        make_dataloaders(DataConfig(n_events=50, batch_size="auto"))
