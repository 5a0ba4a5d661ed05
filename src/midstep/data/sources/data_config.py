"""`DataConfig`: which data a run trains on, as the group `data` of `conf` fills it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from midstep.core.errors import ConfigError
from midstep.core.field_checks import at_least, one_of, require

Cache = Literal["none", "memory", "disk"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings of a data source and its loaders."""

    name: str = "synthetic"
    """Name of a registered source: synthetic, h5, npz, digits, mnist or mnist5k."""
    path: str | None = None
    """File of the sources h5 and npz."""
    batch_size: int | str = 128
    """Samples of a batch, or `auto`: the largest that fits into memory."""
    num_workers: int = 0
    """Worker processes of each loader."""
    cache: Cache = "none"
    """Where samples are kept after they were read the first time."""
    seed: int = 42
    """Seed of generated events and of splits; the order has the seed of the trainer."""
    n_events: int = 20_000
    """Events that `synthetic` generates."""

    def __post_init__(self) -> None:
        require(
            None if self.batch_size == "auto" else at_least("batch_size", self.batch_size, 1),
            at_least("num_workers", self.num_workers, 0),
            one_of("cache", self.cache, get_args(Cache)),
            at_least("seed", self.seed, 0),
            at_least("n_events", self.n_events, 10),
        )


def data_file(cfg: DataConfig) -> Path:
    """The file of a source that reads one.

    Raises:
        ConfigError: no path is set, or there is no such file.
    """
    if cfg.path is None:
        raise ConfigError(f"the data source {cfg.name!r} reads a file; name it with data.path=FILE")
    return existing_file(Path(cfg.path).expanduser())


def existing_file(path: Path) -> Path:
    """The path itself.

    Raises:
        ConfigError: there is no such file.
    """
    if not path.is_file():  # a pipe would block whoever opens it
        what = "is not a file" if path.exists() else "does not exist"
        raise ConfigError(f"{path} {what}; give the path of an existing file")
    return path
