"""Recipes by name: trainings that the page can start, with typed settings and no code.

Another package adds a recipe with an entry point of the group `midstep.recipes`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ConfigError, MissingExtraError
from midstep.loops.loop_registry import loops
from midstep.loops.recipe_settings import RecipeSetting, check_settings, describe_settings

if TYPE_CHECKING:
    from pathlib import Path

    from midstep.session import Run

log = logging.getLogger("midstep.loops")
GROUP = "midstep.recipes"


class RecipeTraining(Protocol):
    """A training with checked settings and data, such as `AutoencoderTraining`."""

    def open_run(self, *, name: str, run_dir: Path | None = None, run_id: str | None = None) -> Run:
        """The run of the training, with its settings in the header."""

    def run_to_end(self, run: Run) -> object:
        """Train in `run` to the last step or until it is stopped, and record the end."""


class AnyRecipe(Protocol):
    """What can be started by name: a `Recipe`, or a loop of the config tree."""

    @property
    def name(self) -> str:
        """Name of the recipe."""

    @property
    def title(self) -> str:
        """Title on the page."""

    @property
    def about(self) -> str:
        """What it trains, in one or two sentences."""

    @property
    def settings(self) -> tuple[RecipeSetting, ...]:
        """The settings of the recipe."""

    def check_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given`, or raise one error that lists all problems."""

    def prepare(self, given: Mapping[str, Any]) -> RecipeTraining:
        """Build model and data for these settings. Wrong settings raise an error here."""

    def preview(self, given: Mapping[str, Any]) -> str:
        """All settings of a run with what was given, as YAML."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training that can be started by name.

    Config and training are given as names, so listing recipes loads neither torch nor data.

    >>> find_recipe("demo").settings[1].name
    'steps'
    """

    name: str
    """Name of the recipe."""
    title: str
    """Title on the page."""
    about: str
    """What it trains, in one or two sentences."""
    config: str
    """The dataclass of its settings, as `package.module:Name`."""
    training: str
    """A callable that builds a `RecipeTraining` from the config, as `package.module:name`."""
    threads: int | None = None
    """Threads of torch; None does not change them."""

    @property
    def settings(self) -> tuple[RecipeSetting, ...]:
        """The settings of the recipe."""
        return describe_settings(resolve_name(self.config))

    def check_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given`, or raise one error that lists all problems."""
        return check_settings(self.settings, given)

    def preview(self, given: Mapping[str, Any]) -> str:
        """All settings of a run with what was given, as YAML."""
        config = resolve_name(self.config)(**self.check_settings(given))
        return "".join(f"{name}: {json.dumps(value)}\n" for name, value in asdict(config).items())

    def prepare(self, given: Mapping[str, Any]) -> RecipeTraining:
        """Build model and data for these settings. Wrong settings raise an error here."""
        config = resolve_name(self.config)(**self.check_settings(given))
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)
        training: RecipeTraining = resolve_name(self.training)(config)
        return training


BUILT_IN = (
    Recipe(
        name="demo",
        title="Demo: competing features",
        about=(
            "A linear autoencoder on digits whose features compete for the inputs, or do not: what "
            "midstep demo trains."
        ),
        config="midstep.loops.bcl_config:BclConfig",
        training="midstep.loops.bcl:BclTraining",
        # The model is too small for two threads: a second one gains nothing, and next to another
        # training on the same cores both become ten times slower.
        threads=1,
    ),
)


@cache
def recipes() -> Mapping[str, AnyRecipe]:
    """All recipes by name; built-in ones take precedence.

    The loops of the config tree are among them where Hydra is installed (extra `runs`).
    """
    by_name: dict[str, AnyRecipe] = {recipe.name: recipe for recipe in BUILT_IN}
    for recipe in _loop_recipes():
        by_name.setdefault(recipe.name, recipe)
    for entry in entry_points(group=GROUP):
        try:
            recipe = entry.load()
            _ = recipe.settings  # raises an error for settings that a form cannot show
        except Exception:  # a broken package must not hide the other recipes
            log.exception("recipe %s of %s cannot be used", entry.name, entry.value)
            continue
        by_name.setdefault(recipe.name, recipe)
    return by_name


def _loop_recipes() -> list[AnyRecipe]:
    if find_spec("hydra") is None:
        return []
    from midstep.loops.config.loop_recipe import LoopRecipe

    return [LoopRecipe(loop) for loop in loops().values()]


def find_recipe(name: str) -> AnyRecipe:
    """The recipe of that name."""
    known = recipes()
    if name not in known and name in loops():
        raise MissingExtraError.for_library(
            f"hydra-core, which composes the settings of {name},", "runs"
        )
    if name not in known:
        raise ConfigError(f"there is no recipe {name!r}; there are {', '.join(known)}")
    return known[name]
