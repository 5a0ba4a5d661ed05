"""Recipes by name: trainings that the page can start, with typed settings and no code.

Another package adds a recipe with an entry point of the group `midstep.recipes`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Protocol

from midstep.core.errors import ConfigError
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


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training that can be started by name.

    Config and training are given as names, so listing recipes loads neither torch nor data.

    >>> find_recipe("bcl").settings[1].name
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
        name="bcl",
        title="Competing features",
        about=(
            "A linear autoencoder on digits whose features compete for the inputs, or do not: the "
            "debugger's own demo."
        ),
        config="midstep.loops.bcl_config:BclConfig",
        training="midstep.loops.bcl:BclTraining",
        # The model is too small for two threads: a second one gains nothing, and beside another
        # training on the same cores both become ten times slower.
        threads=1,
    ),
)


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes by name; built-in ones take precedence."""
    by_name = {recipe.name: recipe for recipe in BUILT_IN}
    for entry in entry_points(group=GROUP):
        try:
            recipe = entry.load()
            _ = recipe.settings  # raises an error for settings that a form cannot show
        except Exception:  # a broken package must not hide the other recipes
            log.exception("recipe %s of %s cannot be used", entry.name, entry.value)
            continue
        by_name.setdefault(recipe.name, recipe)
    return by_name


def find_recipe(name: str) -> Recipe:
    """The recipe of that name."""
    known = recipes()
    if name not in known:
        raise ConfigError(f"there is no recipe {name!r}; there are {', '.join(known)}")
    return known[name]
