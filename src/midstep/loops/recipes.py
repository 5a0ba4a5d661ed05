"""Recipes by name: trainings that can be started from a page, with typed settings and no code.

A package adds its own with an entry point of the group `midstep.recipes` that names a `Recipe`.
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
    """A training whose settings and data were found to be right; `loops.demo.Demo` is one."""

    def open_run(self, *, name: str, run_dir: Path | None = None, run_id: str | None = None) -> Run:
        """The run it will train in, with its settings in the header."""

    def run_to_end(self, run: Run) -> object:
        """Train in `run` to the last step or until it is stopped, and put the end on record."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A training that can be started by name. Config and training are named, so that listing
    recipes loads neither torch nor data.

    >>> find_recipe("bcl").settings[1].name
    'steps'
    """

    name: str
    """Under which it is started."""
    title: str
    """What people read."""
    about: str
    """What is trained, in a sentence or two."""
    config: str
    """The dataclass of its settings, as `package.module:Name`."""
    training: str
    """What makes a `RecipeTraining` of such a config, as `package.module:name`."""
    threads: int | None = None
    """Threads of torch; None leaves them alone."""

    @property
    def settings(self) -> tuple[RecipeSetting, ...]:
        """What can be set."""
        return describe_settings(resolve_name(self.config))

    def check_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given`, or one error that lists all that is wrong with it."""
        return check_settings(self.settings, given)

    def prepare(self, given: Mapping[str, Any]) -> RecipeTraining:
        """Model and data for these settings; what is wrong with them is found here."""
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
        # The model is too small to share: a second thread gains nothing, and where another training
        # uses the cores the two slow each other down tenfold.
        threads=1,
    ),
)


@cache
def recipes() -> Mapping[str, Recipe]:
    """All there are, by name; ours first."""
    by_name = {recipe.name: recipe for recipe in BUILT_IN}
    for entry in entry_points(group=GROUP):
        try:
            recipe = entry.load()
            _ = recipe.settings  # what cannot be shown cannot be started
        except Exception:  # somebody else's package: the others can still be started
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
