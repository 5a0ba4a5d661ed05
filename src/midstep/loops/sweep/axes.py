"""Axes of a sweep: overrides with several values, and their cartesian product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from midstep.core.errors import ConfigError, MissingExtraError

MOST_CELLS = 10_000


@dataclass(frozen=True, kw_only=True)
class SweepAxis:
    """A setting that a sweep varies, with its values in the order of the command line."""

    key: str
    """The override's key, such as `phase1/latent_space` or `phase1.trainer.seed`."""
    values: tuple[str, ...]
    """Each value as it is written in an override."""

    @property
    def label(self) -> str:
        """The last part of the key.

        >>> SweepAxis(key="phase1.trainer.globals_beta", values=("0", "1")).label
        'globals_beta'
        """
        return self.key.lstrip("+").replace("/", ".").rpartition(".")[2]

    @property
    def is_seed(self) -> bool:
        """Whether its values repeat a training instead of changing it."""
        return self.label == "seed"


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """The overrides of a sweep, separated into axes and fixed ones."""

    axes: tuple[SweepAxis, ...]
    fixed: tuple[str, ...]

    def cells(self) -> list[Mapping[str, str]]:
        """The value of each axis, for each cell; the last axis varies fastest."""
        combinations = product(*(axis.values for axis in self.axes))
        keys = [axis.key for axis in self.axes]
        return [dict(zip(keys, values, strict=True)) for values in combinations]

    def overrides(self, choices: Mapping[str, str]) -> tuple[str, ...]:
        """The overrides of one cell, each with one value."""
        return (*self.fixed, *(f"{key}={value}" for key, value in choices.items()))


def parse_axes(overrides: Sequence[str]) -> SweepRequest:
    """Separate the overrides of `midstep train -m` into axes and fixed ones.

    >>> parse_axes(["loop=ae", "phase1.trainer.seed=range(0,3)"]).axes[0].values
    ('0', '1', '2')
    """
    try:
        from hydra.core.override_parser.overrides_parser import OverridesParser
        from hydra.core.override_parser.types import ValueType
        from hydra.errors import HydraException
    except ImportError as error:
        raise MissingExtraError(
            "a sweep needs hydra-core; install it with: pip install 'midstep[runs]'"
        ) from error
    axes, fixed = [], []
    for text in overrides:
        try:
            (override,) = OverridesParser.create().parse_overrides([text])
        except HydraException as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(
                f"override {text!r} cannot be read: {reason}; write NAME=VALUE or NAME=A,B,C"
            ) from error
        if not override.is_sweep_override():
            fixed.append(text)
            continue
        if override.value_type in (ValueType.GLOB_CHOICE_SWEEP, ValueType.INTERVAL_SWEEP):
            raise ConfigError(
                f"override {text!r} has no list of values; write them out, for example "
                f"{override.get_key_element()}=0,1,2 or range(0,3)"
            )
        values = tuple(override.sweep_string_iterator())
        axes.append(SweepAxis(key=override.get_key_element(), values=values))
    _check_axes(axes)
    return SweepRequest(axes=tuple(axes), fixed=tuple(fixed))


def _check_axes(axes: Sequence[SweepAxis]) -> None:
    if not axes:
        raise ConfigError(
            "-m needs an override with several values, for example phase1.trainer.seed=0,1,2"
        )
    cells = 1
    for axis in axes:
        cells *= len(axis.values)
        if len(set(axis.values)) < len(axis.values):
            raise ConfigError(f"{axis.key} names a value twice: {', '.join(axis.values)}")
    keys = [axis.key for axis in axes]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise ConfigError(f"{repeated} is given twice; give all its values in one override")
    if cells > MOST_CELLS:
        raise ConfigError(f"the axes have {cells:,} cells; a sweep has at most {MOST_CELLS:,}")
