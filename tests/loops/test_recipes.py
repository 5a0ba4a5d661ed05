"""Recipes and their typed settings, without torch; packages add their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Literal

import pytest
import torch

from midstep.core.errors import ConfigError, MissingExtraError
from midstep.core.field_checks import bounded_field
from midstep.loops import recipes as recipes_module
from midstep.loops.bcl import BclTraining
from midstep.loops.bcl_config import BclConfig
from midstep.loops.composed.loop_training import LoopTraining
from midstep.loops.config.loop_recipe import LoopRecipe
from midstep.loops.loop_registry import loops
from midstep.loops.recipe_settings import RecipeSetting, describe_settings
from midstep.loops.recipes import Recipe, find_recipe, recipes


@dataclass(frozen=True, kw_only=True)
class ShortConfig:
    """Settings of a recipe of somebody's own."""

    width: int = bounded_field(8, minimum=1, maximum=64)
    """Of the layer,
    in units."""
    mode: Literal["fast", "exact"] = "fast"
    undocumented: bool = False
    label: str = ""
    """Shown."""


OWN = Recipe(
    name="own",
    title="Own",
    about="Somebody's own.",
    config="tests.loops.test_recipes:ShortConfig",
    training="tests.loops.test_recipes:ShortConfig",
)


@pytest.fixture
def same_threads() -> Iterator[None]:
    """A recipe sets torch's threads, for a process that is its own."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    recipes.cache_clear()
    yield
    recipes.cache_clear()


def _entries(*values: str) -> list[EntryPoint]:
    return [EntryPoint(name=value, value=value, group=recipes_module.GROUP) for value in values]


def test_a_form_gets_kind_default_bounds_choices_and_the_line_under_each_field() -> None:
    width, mode, undocumented, label = describe_settings(ShortConfig)
    assert width == RecipeSetting(
        name="width", kind="int", default=8, minimum=1, maximum=64, about="Of the layer, in units."
    )
    assert (mode.kind, mode.choices, mode.about) == ("choice", ("fast", "exact"), "")
    assert (undocumented.kind, undocumented.about) == ("bool", "")
    assert (label.kind, label.default) == ("text", "")


def test_defaults_of_every_built_in_setting_pass_their_own_check() -> None:
    for recipe in recipes().values():
        given = {setting.name: setting.default for setting in recipe.settings}
        assert recipe.check_settings(given) == given
        assert all(setting.about for setting in recipe.settings)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        OWN.check_settings({"width": 65, "mode": "slow", "label": "x" * 1_001, "other": 1})
    for part in ("width must be at most 64", "mode must be one of", "label must", "other is not"):
        assert part in str(refused.value)


@pytest.mark.parametrize("value", [True, 1.5, "8", None, float("inf")])
def test_a_whole_number_is_nothing_else(value: object) -> None:
    assert describe_settings(ShortConfig)[0].check(value) == "must be a whole number"


def test_a_setting_that_no_form_could_show_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Odd:
        sizes: tuple[int, ...] = ()

    with pytest.raises(ConfigError, match="sizes is tuple"):
        describe_settings(Odd)


def test_listing_recipes_loads_no_torch() -> None:
    code = (
        "import sys; from midstep.loops.recipes import recipes; "
        "[each.settings for each in recipes().values()]; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_packages_add_recipes_and_a_broken_one_hides_no_other(
    fresh_registry: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = _entries("no.such.module:recipe", f"{__name__}:OWN")
    monkeypatch.setattr(recipes_module, "entry_points", lambda *, group: found)
    assert (next(iter(recipes())), list(recipes())[-1]) == ("demo", "own")
    assert find_recipe("own") is OWN
    assert "no.such.module" in caplog.text


def test_every_loop_is_the_recipe_of_its_name(
    fresh_registry: None, monkeypatch: pytest.MonkeyPatch, same_threads: None
) -> None:
    composed = {name: recipe for name, recipe in recipes().items() if name in loops()}
    assert composed.keys() == loops().keys()
    assert all(isinstance(recipe, LoopRecipe) for recipe in composed.values())
    training = find_recipe("bcl").prepare({"loop.condition": "control"})
    assert isinstance(training, LoopTraining)
    assert torch.get_num_threads() == 1
    monkeypatch.setattr(recipes_module, "find_spec", lambda _: None)
    recipes.cache_clear()
    assert list(recipes()) == ["demo"]
    with pytest.raises(MissingExtraError, match="settings of bcl"):
        find_recipe("bcl")


def test_the_training_of_a_recipe_writes_its_settings_into_the_header(
    tmp_path: Path, same_threads: None
) -> None:
    training = find_recipe("demo").prepare({"steps": 2, "condition": "control"})
    assert isinstance(training, BclTraining)
    with training.open_run(name="short", run_dir=tmp_path / "here") as run:
        result = training.run_to_end(run)
    assert result.steps == 2
    assert run.status == "finished"
    assert training.settings == {
        "recipe": "demo",
        **asdict(BclConfig(steps=2, condition="control")),
    }
