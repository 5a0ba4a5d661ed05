"""Makes the plan of a sweep, or extends that of an earlier one with new cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.ids import new_run_id, run_directory_name
from midstep.loops.sweep.axes import SweepAxis, parse_axes
from midstep.loops.sweep.cell_address import digest_json, digest_modules, fingerprint_data
from midstep.loops.sweep.plan import PlannedJob, SweepPlan


@dataclass(frozen=True, kw_only=True)
class CellConfig:
    """One composed cell, as plain data."""

    config: Mapping[str, Any]
    """The resolved config, without names of folders."""
    modules: tuple[str, ...]
    """The modules that the config names."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The chosen option of each group of the config tree."""
    data_files: tuple[Path, ...] = ()
    """The files that it trains on."""


Compose = Callable[[Sequence[str]], CellConfig]


def make_plan(
    overrides: Sequence[str],
    compose: Compose,
    *,
    name: str,
    at: datetime,
    config_dir: str | None = None,
) -> SweepPlan:
    """The plan for these overrides. Every cell is composed, so a wrong value is refused here."""
    request = parse_axes(overrides)
    jobs: list[PlannedJob] = []
    by_config: dict[str, PlannedJob] = {}
    for number, choices in enumerate(request.cells()):
        given = request.overrides(choices)
        job = _plan_job(number, choices, given, compose(given), name=name, at=at)
        same = by_config.setdefault(job.config_hash, job)
        if same is not job:
            raise ConfigError(
                f"cells {same.job} and {number} have the same config "
                f"({' '.join(same.overrides)} and {' '.join(given)}); leave one of them out"
            )
        jobs.append(job)
    return SweepPlan(
        id=new_run_id(),
        name=name,
        created=at.timestamp(),
        axes=request.axes,
        fixed=request.fixed,
        config_dir=config_dir,
        jobs=tuple(jobs),
    )


def continue_plan(earlier: SweepPlan, requested: SweepPlan) -> SweepPlan:
    """The earlier plan with the cells of `requested`; its other cells stay.

    A cell that is there keeps its run, unless its config is another one now: defaults of the config
    tree may have changed. Then it gets a new run directory, and the earlier run stays as it is.
    """
    jobs = {_key(job.choices): job for job in earlier.jobs}
    names = {name for job in earlier.jobs for name in (job.run_dir, *job.replaced_runs)}
    for job in requested.jobs:
        known = jobs.get(_key(job.choices))
        if known is not None and known.config_hash == job.config_hash:
            # A module may have been renamed: then the earlier plan names one that is gone.
            jobs[_key(job.choices)] = replace(known, modules=job.modules, data_files=job.data_files)
            continue
        number = len(jobs) if known is None else known.job
        run_dir = _free_name(job.run_dir.rpartition("_job")[0], number, names)
        names.add(run_dir)
        replaced = () if known is None else (*known.replaced_runs, known.run_dir)
        jobs[_key(job.choices)] = replace(job, job=number, run_dir=run_dir, replaced_runs=replaced)
    axes = tuple(_joined(axis, requested.axes) for axis in earlier.axes)
    return replace(earlier, axes=axes, jobs=tuple(jobs.values()))


def _key(choices: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(choices.items())


def renewed_job(job: PlannedJob, *, name: str, at: datetime, has_run: bool) -> PlannedJob:
    """The job with the data and the code of now. A run with other code or data is left as it is.

    Args:
        job: the job as planned.
        name: name of the sweep.
        at: now.
        has_run: whether there is a run with the earlier code or data.

    Raises:
        ConfigError: a module that the config named is gone.
        StorageError: a data file is gone.
    """
    renewed = replace(
        job,
        code_hash=digest_modules(job.modules),
        data_fingerprint=fingerprint_data(map(Path, job.data_files)),
        failure=None,
        accepted_code=(),
        batch_size=None,
    )
    if not has_run:
        return renewed
    taken = {job.run_dir, *job.replaced_runs}
    run_dir = _free_name(run_directory_name(name, at), job.job, taken)
    return replace(
        renewed,
        run_dir=run_dir,
        run_id=new_run_id(),
        replaced_runs=(*job.replaced_runs, job.run_dir),
    )


def with_found_batch_size(job: PlannedJob, folder: Path) -> PlannedJob:
    """The job with the batch size that its run found and recorded, if it was to find one."""
    data = job.config.get("data")
    if not isinstance(data, Mapping) or data.get("batch_size") != "auto":
        return job
    from midstep.loops.config.recorded_config import read_recorded

    try:
        size = read_recorded(folder / job.run_dir).config.data.batch_size
    except (ConfigError, FormatError):  # the run has not begun
        return job
    return replace(job, batch_size=size) if isinstance(size, int) else job


def _plan_job(
    number: int,
    choices: Mapping[str, str],
    overrides: tuple[str, ...],
    cell: CellConfig,
    *,
    name: str,
    at: datetime,
) -> PlannedJob:
    return PlannedJob(
        job=number,
        choices=dict(choices),
        overrides=overrides,
        config=dict(cell.config),
        options=dict(cell.options),
        modules=cell.modules,
        data_files=tuple(str(path.absolute()) for path in cell.data_files),
        config_hash=digest_json(cell.config),
        data_fingerprint=fingerprint_data(cell.data_files),
        code_hash=digest_modules(cell.modules),
        run_dir=_numbered(run_directory_name(name, at.astimezone(UTC)), number),
        run_id=new_run_id(),
    )


def _numbered(stem: str, number: int) -> str:
    return f"{stem}_job{number:03d}"


def _free_name(stem: str, number: int, taken: set[str]) -> str:
    """A run directory that is not taken; two of the same second get `…_name` and `…_name-2`."""
    name, attempt = _numbered(stem, number), 2
    while name in taken:
        name, attempt = _numbered(f"{stem}-{attempt}", number), attempt + 1
    return name


def _joined(axis: SweepAxis, requested: Sequence[SweepAxis]) -> SweepAxis:
    """The axis with the values that the request adds."""
    added = [value for each in requested if each.key == axis.key for value in each.values]
    return replace(axis, values=tuple(dict.fromkeys([*axis.values, *added])))
