"""`make_dataloaders`: the loaders of a source, and what is known of its data.

The steps can be called one by one: `load_source` reads the data, `make_loaders` builds the loaders.
An automatic batch size is searched between them.
"""

from __future__ import annotations

from typing import Any

from torch.utils.data import DataLoader

from midstep.core.errors import ConfigError
from midstep.core.random_streams import RandomStream
from midstep.data.sources.data_config import DataConfig
from midstep.data.sources.registry import find_builder
from midstep.data.sources.sample_cache import cache_samples
from midstep.data.sources.source_data import SPLITS, SourceData

Loader = DataLoader[Any]


def make_dataloaders(
    cfg: DataConfig, *, seed: int | None = None
) -> tuple[Loader, Loader, Loader, dict[str, Any]]:
    """The loaders of train, val and test, and the `meta` that a run records.

    A batch is a mapping of tensors as `SampleSpec` documents it.

    >>> train, val, test, meta = make_dataloaders(DataConfig(n_events=100, batch_size=16))
    >>> next(iter(train))["tokens_cont"].shape, meta["splits"]["train"]
    (torch.Size([16, 18, 4]), 80)

    Args:
        cfg: which data, with a batch size in numbers.
        seed: of the order of train; with None the order comes from torch's global generator.

    Raises:
        ConfigError: a setting is wrong, or a file is missing.
        FormatError: a file is damaged, or has other contents than the source expects.
    """
    data = load_source(cfg)
    return (*make_loaders(data, cfg, seed=seed), data.meta)


def load_source(cfg: DataConfig) -> SourceData:
    """Read or generate the data of a config, and cache it. The batch size is not used yet."""
    return cache_samples(find_builder(cfg.name)(cfg), cfg.cache)


def make_loaders(
    data: SourceData, cfg: DataConfig, *, seed: int | None = None
) -> tuple[Loader, Loader, Loader]:
    """The loaders of train (shuffled), val and test (in order) for data that was read before."""
    if isinstance(cfg.batch_size, str):
        raise ConfigError(
            f"batch_size is {cfg.batch_size!r}, a loader needs a number; find it with "
            "midstep.loops.batch_size.find_batch_size and replace it in the config"
        )
    # A generator of its own, so that the order does not depend on how a model draws its weights.
    generator = None if seed is None else RandomStream(seed, "data.order").torch_generator()
    train, val, test = (
        Loader(
            data.splits[name],  # type: ignore[arg-type]  # a protocol, no subclass of Dataset
            batch_size=cfg.batch_size,
            shuffle=name == "train",
            generator=generator if name == "train" else None,
            num_workers=cfg.num_workers,
            persistent_workers=cfg.num_workers > 0,
            collate_fn=whole_batch,
        )
        for name in SPLITS
    )
    return train, val, test


def whole_batch(batch: Any) -> Any:
    """The batch itself: `__getitems__` returns whole batches, so nothing is left to collate."""
    return batch
