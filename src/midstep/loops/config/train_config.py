"""`TrainConfig`: all settings of a run as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field

from midstep.data.sources.data_config import DataConfig
from midstep.loops.config.loop_settings import AeSettings, LoopSettings
from midstep.loops.config.trainer_config import TrainerConfig
from midstep.models.autoencoder.part_configs import ModelConfig
from midstep.monitoring.logging_config import LoggingConfig


@dataclass(frozen=True, kw_only=True)
class Phase1Config(ModelConfig):
    """The group `phase1`: the parts of the model, and the trainer."""

    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """How the model is trained."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All settings of a run; what is composed or given as a mapping becomes one of these.

    >>> TrainConfig().phase1.trainer.epochs
    10
    """

    loop: LoopSettings = field(default_factory=AeSettings)
    """Which loop trains, with its own settings."""
    data: DataConfig = field(default_factory=DataConfig)
    """What it trains on."""
    phase1: Phase1Config = field(default_factory=Phase1Config)
    """The model and its trainer."""
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    """Which figures are drawn."""


@dataclass(frozen=True, kw_only=True)
class JobName:
    """The key `hydra.job`."""

    name: str | None = None
    """Name of the run, for its directory. If left out, the name of the loop."""


@dataclass(frozen=True, kw_only=True)
class FolderName:
    """The keys `hydra.run` and `hydra.sweep`."""

    dir: str | None = None
    """Exactly this directory. If left out, a new one named by time and name."""


@dataclass(frozen=True, kw_only=True)
class FolderNames:
    """The group `hydra`: names of the folders of runs and sweeps, and nothing else of Hydra."""

    job: JobName = field(default_factory=JobName)
    """The name in both."""
    run: FolderName = field(default_factory=FolderName)
    """The directory of a single run."""
    sweep: FolderName = field(default_factory=FolderName)
    """The directory of a sweep."""
