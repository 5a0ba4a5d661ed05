"""Wire types of recipes: what can be started, what is asked for, and how a process is ended."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr

from midstep.server.models import In, Out

__all__ = ["EndIn", "EndOut", "RecipeList", "RecipeOut", "SettingOut", "StartIn"]

SettingValue = StrictBool | StrictInt | StrictFloat | StrictStr


class SettingOut(Out):
    """One setting of a recipe."""

    name: str
    """Under which it is given."""
    kind: Literal["int", "float", "bool", "choice", "text"]
    """What a value of it is."""
    default: SettingValue
    """Taken where none is given."""
    minimum: float | None
    """Least number allowed."""
    maximum: float | None
    """Greatest number allowed."""
    choices: list[str]
    """All there are, where it is a choice."""
    about: str
    """What it does."""


class RecipeOut(Out):
    """A training that can be started by name."""

    name: str
    """Under which it is started."""
    title: str
    """What people read."""
    about: str
    """What is trained."""
    settings: list[SettingOut]
    """What can be set."""


class RecipeList(Out):
    """All recipes, and whether they can be started from here."""

    recipes: list[RecipeOut]
    """Ours first."""
    can_start: bool
    """Whether this server starts runs, and whoever asks may ask for it."""
    why_not: str | None
    """Why it does not."""


class StartIn(In):
    """A run that is wanted: a recipe by name and typed settings; never code, argv or a path."""

    recipe: Annotated[StrictStr, Field(min_length=1, max_length=64)]
    """Name of the recipe."""
    settings: dict[Annotated[str, Field(max_length=64)], SettingValue] = Field(
        default={}, max_length=200
    )
    """Its settings; defaults for those left out."""
    name: Annotated[StrictStr, Field(min_length=1, max_length=64)] | None = None
    """What to call the run; the recipe's name when left out."""
    paused: StrictBool = False
    """Stand before the first step until resumed."""
    id: Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Drawn by whoever asks: repeated, it is answered with the run that it started."""


class EndIn(In):
    """How to end a process that a stop does not end."""

    how: Literal["terminate", "kill"]
    """terminate: it may still write a checkpoint and its end; kill: at once, nothing is written."""


class EndOut(Out):
    """A process that was signalled."""

    id: str
    """Of the run."""
    how: Literal["terminate", "kill"]
    """What was sent."""
