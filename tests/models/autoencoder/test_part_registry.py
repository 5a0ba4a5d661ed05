"""Parts by name: wrong names and pairs are one line, other packages may add parts."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from midstep.core.errors import ConfigError, MissingExtraError
from midstep.core.sample_spec import SampleKind
from midstep.models.autoencoder import (
    CodebookUsage,
    DecoderConfig,
    Encoder,
    EncoderConfig,
    LatentSpaceConfig,
    ModelConfig,
    build_from_config,
    check_parts,
    part_registry,
    register_encoder,
    valid_pairs,
)
from midstep.models.autoencoder.builders import DECODERS, ENCODERS, LATENT_SPACES
from midstep.models.autoencoder.latent.library_quantizers import scalar_levels
from tests.models.autoencoder.samples import SPECS, batch_of

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "autoencoder-parts.md"


class MeanEncoder(Encoder):
    """The mean of a vector, repeated."""

    def __init__(self, cfg, spec, latent_dim) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    def forward(self, batch, generator=None):
        return batch["x"].mean(1, keepdim=True).expand(-1, self.latent_dim)


def register_mean() -> None:
    register_encoder("mean", MeanEncoder, kinds=["vector"])


@pytest.fixture
def clean_registry() -> Iterator[None]:
    registries = (ENCODERS, DECODERS)
    before = [dict(registry._parts) for registry in registries]
    part_registry.load_entry_points.cache_clear()
    yield
    for registry, parts in zip(registries, before, strict=True):
        registry._parts.clear()
        registry._parts.update(parts)
    part_registry.load_entry_points.cache_clear()


def model_config(encoder: str = "mlp", latent_space: str = "none", decoder: str = "mlp"):
    return ModelConfig(
        encoder=EncoderConfig(name=encoder),
        decoder=DecoderConfig(name=decoder),
        latent_space=LatentSpaceConfig(name=latent_space),
    )


@pytest.mark.parametrize(
    ("config", "kind", "message"),
    [
        (
            model_config(encoder="mpl"),
            "events",
            "there is no encoder 'mpl'; did you mean 'mlp'? "
            "there are conv, diffusion, gan, gnn, mlp",
        ),
        (
            model_config(decoder="xyz"),
            "image",
            "there is no decoder 'xyz'; there are conv, diffusion, gan, gnn, mlp",
        ),
        (
            model_config(latent_space="vq2"),
            "vector",
            "there is no latent space 'vq2'; did you mean 'vq'? "
            "there are fsq, identity, linear, none, residual_vq, vq",
        ),
        (
            model_config(encoder="conv"),
            "events",
            "encoder 'conv' does not work on samples of kind 'events'; "
            "use one of diffusion, gan, gnn, mlp",
        ),
        (
            model_config(decoder="gnn"),
            "vector",
            "decoder 'gnn' does not work on samples of kind 'vector'; "
            "use one of diffusion, gan, mlp",
        ),
    ],
)
def test_wrong_part_is_one_line(config: ModelConfig, kind: SampleKind, message: str) -> None:
    for refuse in (check_parts, lambda cfg, kind: build_from_config(cfg, SPECS[kind])):
        with pytest.raises(ConfigError) as error:
            refuse(config, kind)
        assert str(error.value) == message


@pytest.mark.parametrize("config", [EncoderConfig, DecoderConfig])
def test_unknown_activation_is_refused(config: type) -> None:
    with pytest.raises(ConfigError, match="activation must be one of gelu, relu, silu, tanh"):
        config(activation="gellu")


@pytest.mark.usefixtures("clean_registry")
def test_registered_part_is_built_and_may_be_replaced() -> None:
    register_mean()
    register_mean()  # as when a cell of a notebook runs twice
    assert ("mean", "mlp") in valid_pairs("vector")
    assert ("mean", "mlp") not in valid_pairs("image")
    model = build_from_config(model_config(encoder="mean"), SPECS["vector"])
    batch = batch_of("vector")
    assert torch.equal(model(batch).latent[:, 0], batch["x"].mean(1))


def test_built_in_part_is_not_replaced() -> None:
    with pytest.raises(ConfigError, match="encoder 'mlp' is built in; use another name"):
        register_encoder("mlp", MeanEncoder)


@pytest.mark.usefixtures("clean_registry")
def test_other_packages_add_parts_and_broken_ones_hide_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entries = [
        EntryPoint("broken", "no.such.module:register", part_registry.GROUP),
        EntryPoint("mean", f"{__name__}:register_mean", part_registry.GROUP),
    ]

    def load(entry: EntryPoint) -> object:
        if entry.name == "broken":
            raise ModuleNotFoundError(entry.module)
        return register_mean

    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr(part_registry, "entry_points", lambda group: entries)
    assert "mean" in ENCODERS.names("vector")
    assert "parts broken of no.such.module:register cannot be used" in caplog.text


@pytest.mark.parametrize("name", ["fsq", "residual_vq"])
def test_missing_library_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def refuse(module: str, *arguments, **keywords):
        if module == "vector_quantize_pytorch":
            raise ImportError(module)
        return load(module, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"vector-quantize-pytorch is .*midstep\[runs\]"):
        build_from_config(model_config(latent_space=name), SPECS["vector"])


@pytest.mark.parametrize("size", [2, 3, 16, 64, 512, 1000, 4096])
def test_levels_of_fsq_are_near_the_codebook_size(size: int) -> None:
    codes = torch.tensor(scalar_levels(size)).prod()
    assert codes == pytest.approx(size, rel=0.02, abs=1)


@pytest.mark.parametrize("kind", ["events", "image", "vector"])
def test_the_page_lists_the_valid_pairs(kind: SampleKind) -> None:
    """One row an encoder, one column a decoder, in each table of the section of the kind."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n### Samples of kind `{kind}`\n")[1]
    rows = [
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in section.split("\n#")[0].splitlines()
        if line.startswith("|")
    ]
    decoders = rows[0][1:]
    listed = {
        (row[0], decoder)
        for row in rows[2:]
        for decoder, mark in zip(decoders, row[1:], strict=True)
        if mark == "yes"
    }
    assert listed == set(valid_pairs(kind))
    shown = {(row[0], decoder) for row in rows[2:] for decoder in decoders}
    everything = {name for name in ENCODERS.names() if ENCODERS.find(name).is_built_in}
    assert {encoder for encoder, _ in shown} == everything


def test_the_page_lists_the_latent_spaces() -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n## Latent spaces\n")[1].split("\n## ")[0]
    assert all(
        f"| `{name}`" in section or f"`{name}` |" in section for name in LATENT_SPACES.names()
    )


def run_examples(text: str) -> dict[str, object]:
    names: dict[str, object] = {}
    for example in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(example, names)
    return names


def test_examples_of_the_page_run() -> None:
    names = run_examples(PAGE.read_text())
    assert isinstance(names["usage"], CodebookUsage)


@pytest.mark.usefixtures("clean_registry")
def test_the_part_of_the_document_is_built() -> None:
    page = (DOCS / "extend.md").read_text()
    run_examples(page.split("\n## A part\n")[1].split("\n## ")[0])["register"]()
    model = build_from_config(model_config(decoder="mean"), SPECS["vector"])
    batch = batch_of("vector")
    assert model(batch).reconstruction["x"].shape == batch["x"].shape
