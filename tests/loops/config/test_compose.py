"""Composing the settings of a run: aliases, short forms, and one line for each thing wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from midstep.core.errors import ConfigError, FormatError
from midstep.loops import compose
from midstep.loops.config.composed_config import ConfigTree, as_composed
from midstep.loops.config.loop_recipe import LoopRecipe
from midstep.loops.config.recorded_config import read_recorded
from midstep.loops.loop_registry import find_loop, loops

LEGACY = ConfigTree().legacy


def refusal(*overrides: str, config_dir: Path | None = None) -> str:
    with pytest.raises(ConfigError) as refused:
        compose(overrides, config_dir)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_options_values_and_short_forms_reach_the_dataclasses() -> None:
    composed = compose(
        [
            "loop=gan_ae",
            "phase1/latent_space=vq",
            "trainer.seed=1",
            "data.path=/a b/c.h5",
            "phase1.encoder.hidden_dims=[16,8]",
            "loop.discriminator.kind=non_saturating",
        ]
    )
    config = composed.config
    assert (config.phase1.latent_space.name, config.phase1.latent_space.beta) == ("vq", 0.25)
    assert (config.phase1.trainer.seed, config.data.path) == (1, "/a b/c.h5")
    assert config.phase1.encoder.hidden_dims == (16, 8)
    assert composed.resolved["loop"]["discriminator"]["kind"] == "non_saturating"
    assert composed.overrides[2] == "phase1.trainer.seed=1"


def test_defaults_are_those_of_the_documentation() -> None:
    config = compose().config
    assert (config.loop.name, config.data.name, config.data.batch_size) == ("ae", "synthetic", 128)
    encoder, latent = config.phase1.encoder, config.phase1.latent_space
    assert (encoder.hidden_dims, encoder.activation, encoder.id_embedding) == (
        (128, 128),
        "gelu",
        8,
    )
    assert (latent.latent_dim, latent.codebook_size, latent.decay) == (32, 512, 0.99)
    assert (config.phase1.trainer.lr, config.phase1.trainer.seed) == (1e-3, 42)


@pytest.mark.parametrize(
    ("alias", "group", "option"),
    [
        ("loop=autoencoder", "loop", "ae"),
        ("loop=simple_mlp", "loop", "mlp"),
        ("phase1/latent_space=identity", "phase1/latent_space", "none"),
    ],
)
def test_a_second_name_means_the_same_option(alias: str, group: str, option: str) -> None:
    assert compose([alias]).choices[group] == option


@pytest.mark.parametrize("old", LEGACY)
def test_every_legacy_key_is_refused_with_a_key_that_exists(old: str) -> None:
    said = refusal(f"{old}=1")
    new = said.partition("; use ")[2]
    tree = ConfigTree()
    known = {each.key for each in tree.check([f"{new}={_some_option(tree, new)}"])}
    assert known == {new}


def _some_option(tree: ConfigTree, key: str) -> str:
    return next(iter(tree.options[key])) if key in tree.options else "1"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer.sed=1", "there is no setting trainer.sed; did you mean phase1.trainer.seed?"),
        ("model.latent_dim=3", "did you mean phase1.latent_space.latent_dim?"),
        (
            "phase1/encoder=mlpp",
            "unknown option phase1/encoder=mlpp; did you mean mlp? the options are conv, diffusion",
        ),
        ("phase1.encoder=gnn", "choose an option of it with phase1/encoder=OPTION"),
        ("phase1.trainer.seed=abc", "phase1.trainer.seed=abc: Value 'abc' of type 'str'"),
        ("phase1.encoder.hidden_dims=[1,a]", "phase1.encoder.hidden_dims=[1,a]: Value 'a'"),
        ("phase1.encoder.hidden_dims=5", "hidden_dims=5: must be a list, such as [64,64]"),
        ("trainer.lr=-1", "phase1.trainer.lr must be above 0, got -1.0"),
        ("data.cache=tape", "data.cache must be one of none, memory, disk, got 'tape'"),
        ("data.batch_size=many", "data.batch_size must be a whole number"),
        ("hydra.verbose=true", "there is no setting hydra.verbose"),
        ("data.seed=1,2", "data.seed=1,2 has several values; add -m"),
        ("+data.more=1", "adds or deletes a key"),
        ("data.seed", "write it as key=value"),
        ("loop.condition=control", "there is no setting loop.condition"),
        ("logging=wandb_online", "needs a mirror to a tracker, and there is none yet"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_remedy(override: str, said: str) -> None:
    assert said in refusal(override)


def test_a_folder_adds_options_and_a_broken_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "phase1" / "encoder").mkdir(parents=True)
    (tmp_path / "phase1" / "encoder" / "narrow.yaml").write_text("name: mlp\nhidden_dims: [4]\n")
    config = compose(["phase1/encoder=narrow"], tmp_path).config
    assert config.phase1.encoder.hidden_dims == (4,)
    (tmp_path / "phase1" / "encoder" / "narrow.yaml").write_text("name: [mlp\n")
    refusal("phase1/encoder=narrow", config_dir=tmp_path)
    assert "folder not found" in refusal(config_dir=tmp_path / "missing")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "mine.yaml").write_text("name: [ae\n")
    with pytest.raises(ConfigError, match="not YAML"):
        ConfigTree(tmp_path).check(["loop=mine,ae"])
    (tmp_path / "loop" / "mine.yaml").write_bytes(b"name: \xff\n")
    assert "not YAML" in refusal("loop=mine", config_dir=tmp_path)


def test_a_mapping_becomes_the_same_settings_as_overrides() -> None:
    given: dict[str, Any] = {"loop": {"name": "bcl", "condition": "rescue"}, "data": {"seed": 3}}
    composed = as_composed(given)
    overrides = ["loop=bcl", "loop.condition=rescue", "data.seed=3"]
    assert composed.config == compose(overrides).config
    assert (composed.config.data.name, composed.choices["data"]) == ("digits", "digits")
    # A name that is an option chooses it, as an override of the group does.
    other = as_composed({"phase1": {"latent_space": {"name": "vq"}}}, loop="gan_ae")
    assert other.choices == compose(["loop=gan_ae", "phase1/latent_space=vq"]).choices
    assert as_composed(composed.config).resolved == composed.resolved
    with pytest.raises(ConfigError, match="encder"):
        as_composed({"phase1": {"encder": {}}})
    with pytest.raises(ConfigError, match=r"loop=mlp, but the settings name loop\.name=bcl"):
        as_composed(given, loop="mlp")
    with pytest.raises(ConfigError, match="did you mean"):
        as_composed({"loop": {"name": "mpl"}})


def test_recorded_settings_are_read_back(tmp_path: Path) -> None:
    composed = compose(["loop=mlp", "trainer.epochs=3", "hydra.job.name=try"])
    (tmp_path / ".hydra").mkdir()
    for name, text in composed.hydra_texts.items():
        (tmp_path / ".hydra" / name).write_text(text)
    assert read_recorded(tmp_path).config == composed.config
    assert yaml.safe_load(composed.hydra_texts["overrides.yaml"]) == list(composed.overrides)
    (tmp_path / ".hydra" / "hydra.yaml").write_text("hydra: 3\n")
    with pytest.raises(FormatError, match=r"hydra\.yaml lacks the overrides"):
        read_recorded(tmp_path)
    (tmp_path / ".hydra" / "config.yaml").write_text("loop: {name: '${oc.env:HOME}'}\n")
    with pytest.raises(FormatError, match="reads the environment"):
        read_recorded(tmp_path)
    (tmp_path / ".hydra" / "config.yaml").unlink()
    with pytest.raises(ConfigError, match="not made by `midstep train`"):
        read_recorded(tmp_path)


@pytest.mark.parametrize("name", [name for name in loops() if name != "bcl"])
def test_a_recipe_of_a_loop_offers_groups_whose_defaults_change_nothing(name: str) -> None:
    recipe = LoopRecipe(find_loop(name))
    given = {each.name: each.default for each in recipe.settings}
    assert recipe.compose(given).config == compose([f"loop={name}"]).config
    groups = {each.group for each in recipe.settings}
    assert {"data", "phase1/trainer", "logging"} <= groups
    assert ("phase1/encoder" in groups) == find_loop(name).uses_phase1


def test_a_value_of_a_form_is_no_reference_to_another_value() -> None:
    recipe = LoopRecipe(find_loop("ae"))
    with pytest.raises(ConfigError, match="write the value itself"):
        recipe.compose({"data.path": "${oc.env:HOME}"})
    quoted = "it's a 'file', {1} [2]\\"
    assert recipe.compose({"data.path": quoted}).config.data.path == quoted
    assert recipe.compose({"data.batch_size": "16"}).config.data.batch_size == 16
