"""Loops by name: what `midstep train loop=NAME` runs, and the page offers.

Another package adds a loop with an entry point of the group `midstep.loops` that leads to a `Loop`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError

if TYPE_CHECKING:
    from midstep.loops.composed.loop_parts import Build
    from midstep.loops.config.loop_settings import LoopSettings

log = logging.getLogger("midstep.loops")
GROUP = "midstep.loops"


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A training loop that can be chosen by name.

    Settings and loop are given as names, so listing loops loads no torch.

    >>> find_loop("mlp").settings_class.__name__
    'MlpSettings'
    """

    name: str
    """Name of the loop, as in `loop=ae`."""
    title: str
    """Title on the page."""
    about: str
    """What it trains, in one sentence."""
    settings: str | type[LoopSettings]
    """The dataclass of its own settings, or its name as `package.module:Name`."""
    build: str | Build
    """A function from a `TrainConfig` and the data to `LoopParts`, or its name."""
    uses_phase1: bool = True
    """Whether it trains the parts of `phase1`; if not, only the trainer of `phase1` matters."""
    threads: int | None = None
    """Threads of torch in a run that the page starts; None does not change them."""

    @property
    def settings_class(self) -> type[LoopSettings]:
        """The dataclass of its own settings."""
        if not isinstance(self.settings, str):
            return self.settings
        settings: type[LoopSettings] = resolve_name(self.settings)
        return settings

    @property
    def module(self) -> str:
        """The module of the loop."""
        return (
            self.build.partition(":")[0] if isinstance(self.build, str) else self.build.__module__
        )

    def load_build(self) -> Build:
        """The function that builds the parts of a training."""
        if not isinstance(self.build, str):
            return self.build
        build: Build = resolve_name(self.build)
        return build


_SETTINGS = "midstep.loops.config.loop_settings"
BUILT_IN = (
    Loop(
        name="ae",
        title="Autoencoder",
        about="An autoencoder over token events or images, with any latent space.",
        settings=f"{_SETTINGS}:AeSettings",
        build="midstep.loops.composed.ae:build",
    ),
    Loop(
        name="gan_ae",
        title="Adversarial autoencoder",
        about="An autoencoder whose reconstructions a discriminator judges.",
        settings=f"{_SETTINGS}:GanAeSettings",
        build="midstep.loops.composed.gan_ae:build",
    ),
    Loop(
        name="diffusion_ae",
        title="Diffusion autoencoder",
        about="An encoder, and a diffusion decoder that is conditioned on its output.",
        settings=f"{_SETTINGS}:DiffusionAeSettings",
        build="midstep.loops.composed.diffusion_ae:build",
    ),
    Loop(
        name="mlp",
        title="Classifier",
        about="A small classifier: the five-minute example.",
        settings=f"{_SETTINGS}:MlpSettings",
        build="midstep.loops.composed.mlp:build",
        uses_phase1=False,
    ),
    Loop(
        name="bcl",
        title="Competing features",
        about="A linear autoencoder on images whose features compete for the inputs, or do not.",
        settings=f"{_SETTINGS}:BclSettings",
        build="midstep.loops.composed.bcl_loop:build",
        uses_phase1=False,
        threads=1,
    ),
)


_REGISTERED = {loop.name: loop for loop in BUILT_IN}


def register_loop(loop: Loop) -> Loop:
    """Make a loop known in this process, so that `loop=NAME` trains it.

    Raises:
        ConfigError: another loop has its name.
    """
    if _REGISTERED.setdefault(loop.name, loop) is not loop:
        raise ConfigError(f"there is a loop {loop.name!r} already; choose another name")
    return loop


def unregister_loop(name: str) -> None:
    """Forget a loop that `register_loop` made known."""
    _REGISTERED.pop(name, None)


def loops() -> Mapping[str, Loop]:
    """All loops by name; those of this process take precedence over entry points."""
    return {**_from_entry_points(), **_REGISTERED}


@cache
def _from_entry_points() -> dict[str, Loop]:
    by_name: dict[str, Loop] = {}
    for entry in entry_points(group=GROUP):
        try:
            loop = entry.load()
            _ = loop.settings_class
        except Exception:  # a broken package must not hide the other loops
            log.exception("loop %s of %s cannot be used", entry.name, entry.value)
            continue
        by_name[loop.name] = loop
    return by_name


def find_loop(name: str) -> Loop:
    """The loop of that name."""
    known = loops()
    if name not in known:
        raise ConfigError(f"there is no loop {name!r}; there are {', '.join(known)}")
    return known[name]
