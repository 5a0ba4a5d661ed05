"""`plan.jsonl`: a sweep with one job per cell. One line describes the sweep, then one each job.

The file is replaced as a whole, by the one process that holds the sweep. Readers see an old plan or
a new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.core.field_checks import is_integer, is_number
from midstep.core.files.storage import replace_bytes
from midstep.core.files.untrusted_files import read_plain
from midstep.core.ids import is_run_id
from midstep.facts.index.run_folders import LARGEST_PLAN_BYTES
from midstep.loops.sweep.axes import SweepAxis
from midstep.loops.sweep.cell_address import cell_address, digest_json

PLAN = "plan.jsonl"
VERSION = 1
MOST_JOB_NUMBER = 1_000_000
_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, kw_only=True)
class PlannedJob:
    """One cell of a sweep: what it trains, and the run directory that it trains in."""

    job: int
    """Number of the cell; part of the name of its run directory."""
    choices: Mapping[str, str]
    """The value of each axis by its key."""
    overrides: tuple[str, ...]
    """The overrides from which the config was composed."""
    config: Mapping[str, Any]
    """The resolved config."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The chosen option of each group of the config tree."""
    modules: tuple[str, ...]
    """The modules that the config names."""
    data_files: tuple[str, ...] = ()
    """The files that it trains on."""
    config_hash: str
    """Hash of the config as it was requested."""
    batch_size: int | None = None
    """What was found for `data.batch_size=auto`, once the run has begun."""
    data_fingerprint: str
    code_hash: str
    run_dir: str
    """Name of its run directory inside the sweep's folder."""
    run_id: str
    accepted_code: tuple[str, ...] = ()
    """Hashes of later code with which its result is kept all the same."""
    failure: str | None = None
    """Why its process ended before a run existed; None when none did."""
    replaced_runs: tuple[str, ...] = ()
    """Run directories of the cell with other code or data, which stay as they are."""

    @property
    def address(self) -> str:
        """The hash of config, data and code."""
        config_hash = self.config_hash
        if self.batch_size is not None:
            config_hash = digest_json([config_hash, {"data.batch_size": self.batch_size}])
        return cell_address(
            config_hash=config_hash,
            data_fingerprint=self.data_fingerprint,
            code_hash=self.code_hash,
        )


@dataclass(frozen=True, kw_only=True)
class SweepPlan:
    """A sweep: its axes, what all cells share, and a job for each cell."""

    id: str
    """Made like a run id. The server finds the sweep by it."""
    name: str
    created: float
    """Wall time, seconds since 1970."""
    axes: tuple[SweepAxis, ...]
    fixed: tuple[str, ...] = ()
    """Overrides that all cells share."""
    config_dir: str | None = None
    """Folder with further options of the config tree."""
    jobs: tuple[PlannedJob, ...] = field(default=())

    def job(self, number: int) -> PlannedJob:
        """The job with this number."""
        for each in self.jobs:
            if each.job == number:
                return each
        raise ConfigError(f"sweep {self.name} has no cell {number}; it has {len(self.jobs)} cells")

    def with_job(self, changed: PlannedJob) -> SweepPlan:
        """The plan with one job replaced."""
        jobs = tuple(changed if each.job == changed.job else each for each in self.jobs)
        return replace(self, jobs=jobs)


def write_plan(folder: Path, plan: SweepPlan) -> None:
    """Replace the plan of a sweep; like a run, its settings are for its owner alone."""
    header = {name: value for name, value in asdict(plan).items() if name != "jobs"}
    lines = [{"kind": "sweep", "version": VERSION, **header}]
    lines += [{"kind": "job", "address": job.address, **asdict(job)} for job in plan.jobs]
    text = "".join(f"{strict_json.dumps(line)}\n" for line in lines)
    replace_bytes(folder / PLAN, text.encode(), mode=0o600)


def read_plan(folder: Path) -> SweepPlan:
    """The plan of a sweep.

    Raises:
        ConfigError: there is no plan in the folder.
        FormatError: it is damaged, or of a newer version.
    """
    try:
        data = read_plain(folder / PLAN, LARGEST_PLAN_BYTES)
    except OSError as error:
        raise ConfigError(
            f"{folder} has no {PLAN}; name the folder of a sweep, for example "
            "outputs/multiruns/exp_…"
        ) from error
    try:
        header, *jobs = [strict_json.loads(line) for line in data.splitlines()]
        if header.pop("version") != VERSION:
            raise FormatError(f"{folder / PLAN} was written by a newer midstep; update midstep")
        return replace(_read_header(header), jobs=tuple(_read_job(each) for each in jobs))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, FormatError) and PLAN in str(error):
            raise
        raise FormatError(
            f"{folder / PLAN} is damaged: {type(error).__name__}: {error}; begin a new sweep "
            "with midstep train -m … --new"
        ) from error


def _known(kind: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in record.items() if name in names}


def _read_header(record: Mapping[str, Any]) -> SweepPlan:
    axes = tuple(
        SweepAxis(key=_text(axis["key"]), values=_texts(axis["values"])) for axis in record["axes"]
    )
    plan = SweepPlan(
        **{**_known(SweepPlan, record), "axes": axes, "fixed": _texts(record["fixed"]), "jobs": ()},
    )
    if not is_run_id(_text(plan.id)):
        raise ValueError("expected the id of a sweep")
    _text(plan.name)
    if not is_number(plan.created):
        raise TypeError("its time is not a number")
    if plan.config_dir is not None:
        _text(plan.config_dir)
    return plan


def _read_job(record: Mapping[str, Any]) -> PlannedJob:
    values = _known(PlannedJob, record)
    for name in ("overrides", "modules", "data_files", "accepted_code", "replaced_runs"):
        values[name] = _texts(values[name])
    job = PlannedJob(**values)
    # Part of the name of a file.
    if not is_integer(job.job) or not 0 <= job.job < MOST_JOB_NUMBER:
        raise TypeError(f"expected job numbers from 0 to {MOST_JOB_NUMBER - 1}")
    # The name is joined to the folder, and the plan may come from elsewhere.
    if _FOLDER_NAME.fullmatch(_text(job.run_dir)) is None or not is_run_id(_text(job.run_id)):
        raise ValueError(f"job {job.job} has a wrong run directory or run id")
    if not all(isinstance(each, Mapping) for each in (job.config, job.choices, job.options)):
        raise TypeError(f"job {job.job} has no config")
    for text in (*job.choices.values(), *job.options.values(), job.config_hash, job.code_hash):
        _text(text)
    _text(job.data_fingerprint)
    if job.failure is not None:
        _text(job.failure)
    if job.batch_size is not None and not is_integer(job.batch_size):
        raise TypeError(f"the batch size of job {job.job} is not a whole number")
    return job


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {type(value).__name__}")
    value.encode()  # a lone surrogate, or NUL, would raise later: in the path of a file
    if "\0" in value:
        raise ValueError("a text contains NUL")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"expected a list of texts, got {type(values).__name__}")
    return tuple(map(_text, values))
