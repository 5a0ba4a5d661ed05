"""Commands that a loop offers on its controller for as long as it lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from midstep.control.command_record import CommandSpec

if TYPE_CHECKING:
    from midstep.control import DebugController

__all__ = ["camel", "moving", "offer"]

ALIASES = {"determinism_health": "reportDeterminism", "test_now": "testRun"}
"""Other names that are not just the camel-case form."""

moving = partial(CommandSpec, parked_only=True, moves=True)
"""A command that moves the training itself, so it needs a run that stands."""


def offer(controller: DebugController, *specs: CommandSpec) -> Callable[[], None]:
    """Register commands, each under its other name too; gives back how to withdraw them."""
    every = {form.name: form for spec in specs for form in (spec, _other(spec))}
    for spec in every.values():
        controller.queue.register(spec)
    return lambda: controller.queue.unregister(every)


def _other(spec: CommandSpec) -> CommandSpec:
    """The same command by its other name; itself where that is the same word."""
    name = ALIASES.get(spec.name) or camel(spec.name)
    if name == spec.name:
        return spec
    return replace(spec, name=name, help=f"Another name of {spec.name}.")


def camel(name: str) -> str:
    """The other form of a command's name.

    >>> camel("save_checkpoint")
    'saveCheckpoint'
    """
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
