"""Plans a sweep of the config tree: each cell composed, with the modules and files it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from midstep.core.errors import ConfigError
from midstep.loops.config.composed_config import ComposedConfig, ConfigTree, compose, resolve_values
from midstep.loops.config.recorded_config import read_recorded
from midstep.loops.loop_registry import find_loop
from midstep.loops.sweep.axes import parse_axes
from midstep.loops.sweep.plan import PlannedJob, SweepPlan
from midstep.loops.sweep.planning import CellConfig, make_plan
from midstep.loops.sweep.sweep_folders import DEFAULT_SWEEPS

if TYPE_CHECKING:
    from midstep.loops.config.train_config import TrainConfig

_FOLDERS = "hydra."
"""Beginning of the overrides that name folders. They are not part of what a cell trains."""


@dataclass(frozen=True, kw_only=True)
class RequestedSweep:
    """What the overrides of `midstep train -m` request."""

    plan: SweepPlan
    folder: Path | None
    """Exactly this folder (`hydra.sweep.dir`); None for one named by time and name."""
    root: Path
    """Where sweeps lie."""


def plan_sweep(
    overrides: Sequence[str],
    *,
    at: datetime,
    config_dir: Path | None = None,
    root: Path = DEFAULT_SWEEPS,
) -> RequestedSweep:
    """The plan for these overrides. Every cell is composed, so a wrong value is refused here."""
    tree = ConfigTree(config_dir)
    # With full keys, so that `trainer.seed` and `phase1.trainer.seed` are the same axis.
    checked = [str(each) for each in tree.check(overrides)]
    given = [text for text in checked if not text.startswith(_FOLDERS)]
    if any(text.startswith("hydra.run.") for text in checked):
        raise ConfigError("hydra.run.dir names the directory of one run; use hydra.sweep.dir")
    request = parse_axes(given)
    names = [text for text in checked if text.startswith(_FOLDERS)]
    first = compose([*request.overrides(request.cells()[0]), *names], config_dir)
    varies_loop = any(axis.key == "loop" for axis in request.axes)
    name = first.folders.job.name or ("loops" if varies_loop else first.config.loop.name)
    folder = first.folders.sweep.dir
    plan = make_plan(
        given,
        lambda texts: cell_config(compose(texts, config_dir)),
        name=name,
        at=at,
        config_dir=None if config_dir is None else str(config_dir.absolute()),
    )
    return RequestedSweep(plan=plan, folder=None if folder is None else Path(folder), root=root)


def cell_config(composed: ComposedConfig) -> CellConfig:
    """One composed cell as plain data."""
    path = composed.config.data.path
    return CellConfig(
        config=composed.resolved,
        options=dict(composed.choices),
        modules=named_modules(composed.config),
        data_files=() if path is None else (Path(path),),
    )


def composed_of(job: PlannedJob, run_dir: Path) -> ComposedConfig:
    """The settings of a planned cell; the config tree may have changed since.

    A run that is there has recorded its own, with the batch size that was found for it.
    """
    if (run_dir / ".hydra" / "config.yaml").is_file():
        return read_recorded(run_dir)
    return replace(resolve_values(job.config), overrides=job.overrides, choices=job.options)


def named_modules(config: TrainConfig) -> tuple[str, ...]:
    """The modules of the loop, the data source and the parts that a config names, sorted."""
    from midstep.data.sources.registry import builder_module

    loop = find_loop(config.loop.name)
    modules = {loop.module, builder_module(config.data.name)}
    if loop.uses_phase1:
        from midstep.models.autoencoder.autoencoder import Autoencoder
        from midstep.models.autoencoder.builders import DECODERS, ENCODERS, LATENT_SPACES

        phase1 = config.phase1
        modules.add(Autoencoder.__module__)
        for builder in (
            ENCODERS.find(phase1.encoder.name).builder,
            DECODERS.find(phase1.decoder.name).builder,
            LATENT_SPACES.find(phase1.latent_space.name).builder,
        ):
            modules.add(builder.__module__)
    return tuple(sorted(modules))
