"""Imports real collision events from ROOT files into one HDF5 file, as the source `h5` reads it.

Each particle becomes a token with its four-momentum and type. An event keeps the particles with the
largest transverse momentum; tokens are ordered by type, and by momentum within a type.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, MidstepError, MissingExtraError
from midstep.core.field_checks import at_least, require, shares
from midstep.core.files.storage import (
    make_folder,
    storage_errors,
    sync_file,
    sync_folder,
    temporary_name,
)
from midstep.data.hdf5_checks import import_h5py
from midstep.data.sources.h5_events import DESCRIPTION
from midstep.data.sources.source_data import SPLITS, Split, split_rows

Columns = dict[str, NDArray[Any]]
EVENTS_AT_ONCE = 20_000
CHUNK_EVENTS = 1_024
MOST_KINDS = 255
"""Types of tokens that fit into a byte together with the padding."""


@dataclass(frozen=True, kw_only=True)
class ImportConfig:
    """Which branches of a ROOT tree become which values of an event."""

    tree: str = "events"
    """Name of the tree."""
    particles: Mapping[str, str] = field(
        default_factory=lambda: {
            "jet": "Jet",
            "muon": "Muon",
            "electron": "Electron",
            "photon": "Photon",
        }
    )
    """Types of tokens, and how the names of their branches begin; `{}` stands for the component."""
    components: tuple[str, ...] = ("Px", "Py", "Pz", "E")
    """How the names of the four-momentum's branches end: px, py, pz and energy."""
    globals: tuple[str, ...] = ("MET_px", "MET_py")
    """Branches with one value for each event."""
    label: str | None = None
    """Branch with a class, or 1 for an anomaly."""
    n_tokens: int = 18
    """Tokens of an event; further particles are left out."""
    ratios: Mapping[str, float] = field(
        default_factory=lambda: {"train": 0.7, "val": 0.15, "test": 0.15}
    )
    """Shares of the splits."""
    seed: int = 42
    """Seed of the division into splits."""
    unit: str = "GeV"
    """Unit of momenta and energies."""

    def __post_init__(self) -> None:
        require(
            at_least("n_tokens", self.n_tokens, 1),
            at_least("seed", self.seed, 0),
            shares("ratios", self.ratios, SPLITS),
            None
            if 1 <= len(self.particles) <= MOST_KINDS
            else f"particles must name 1 to {MOST_KINDS} types, got {len(self.particles)}",
            None if self.globals else "globals must name at least one branch",
            None
            if len(self.components) == 4
            else f"components must be four names (px, py, pz, E), got {len(self.components)}",
        )

    def branches_of(self, kind: str) -> list[str]:
        """The four branches of one type of particle.

        >>> ImportConfig(particles={"jet": "jets.{}"}).branches_of("jet")
        ['jets.Px', 'jets.Py', 'jets.Pz', 'jets.E']
        """
        name = self.particles[kind]
        pattern = name if "{}" in name else f"{name}_{{}}"
        return [pattern.replace("{}", component) for component in self.components]

    @property
    def branches(self) -> list[str]:
        """All branches that are read."""
        particles = [branch for kind in self.particles for branch in self.branches_of(kind)]
        return [*particles, *self.globals, *([] if self.label is None else [self.label])]


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is."""

    done: int
    total: int
    stage: str = "events"
    reused: bool = False


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """What an import has written."""

    splits: Mapping[str, int]
    """Events of each split."""
    empty_events: int
    """Events without a particle, which are left out."""
    dropped_particles: int
    """Particles beyond the tokens of their event."""

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**asdict(self), "splits": dict(self.splits)}


def import_events(
    files: Sequence[Path],
    out: Path,
    config: ImportConfig | None = None,
    *,
    progress: Callable[[ImportProgress], object] | None = None,
) -> ImportResult:
    """Write the events of ROOT files to a new HDF5 file, which appears when it is complete.

    Args:
        files: ROOT files with the same tree, in order.
        out: the new file; it must not exist.
        config: which branches are read.
        progress: called after each piece.

    Raises:
        ConfigError: a file or a branch is missing, or `out` exists.
        FormatError: a file is damaged, or a branch holds something other than expected.
    """
    config = config or ImportConfig()
    if out.exists():
        raise ConfigError(f"{out} exists already; choose another name or remove it")
    h5py = import_h5py()
    with ExitStack() as stack:
        trees = [(path, _open_tree(path, config, stack)) for path in files]
        total = sum(tree.num_entries for _, tree in trees)
        split_of_event = _assign_splits(total, config)
        make_folder(out.parent)
        stack.enter_context(storage_errors(out, "write"))
        temporary = stack.enter_context(temporary_name(out))
        with h5py.File(temporary, "w") as file:
            writer = _EventWriter(file, config)
            done = 0
            for columns in chain.from_iterable(_read_tree(*each, config) for each in trees):
                count = len(columns["globals"])
                writer.add(columns, split_of_event[done : done + count])
                done += count
                if progress is not None:
                    progress(ImportProgress(done, total))
            result = writer.finish(files)
        sync_file(temporary)  # before the rename: a name must not lead to an empty file
        temporary.replace(out)
    sync_folder(out.parent)
    return result


def _assign_splits(total: int, config: ImportConfig) -> NDArray[np.int8]:
    """The number of the split of each event."""
    if total < len(SPLITS):
        raise ConfigError(f"there are {total} events, expected at least one for each split")
    parts = split_rows(np.arange(total), [config.ratios[name] for name in SPLITS], config.seed)
    splits = np.empty(total, np.int8)
    for number, rows in enumerate(parts):
        splits[rows] = number
    return splits


# -- ROOT -----------------------------------------------------------------------------------------


def _import_uproot() -> Any:
    try:
        import uproot
    except ImportError:
        raise MissingExtraError.for_library("uproot", "particles") from None
    return uproot


def _open_tree(path: Path, config: ImportConfig, stack: ExitStack) -> Any:
    """The tree of a file, with all branches that are needed."""
    uproot = _import_uproot()
    if not path.is_file():
        raise ConfigError(f"{path} is not a file; give the paths of ROOT files")
    try:
        # A `Path`: text with a colon would be taken for an address, or for a name in the file.
        # This handler starts no thread; the default one leaves a thread of fsspec behind.
        source = uproot.open(
            Path(path), handler=uproot.MultithreadedFileSource, use_threads=False, num_workers=1
        )
        root = stack.enter_context(source)
        names = {name.partition(";")[0]: kind for name, kind in root.classnames().items()}
        trees = [name for name, kind in names.items() if kind in ("TTree", "ROOT::RNTuple")]
        tree = root[config.tree] if config.tree in trees else None
        branches = [] if tree is None else list(tree.keys())
    except Exception as error:  # noqa: BLE001 - uproot raises errors of many kinds
        raise FormatError(f"{path} cannot be read as a ROOT file: {_reason(error)}") from None
    if config.tree not in trees:
        raise ConfigError(
            f"{path} has no tree {config.tree!r}; it has {', '.join(trees) or 'none'}; choose one "
            "with --tree"
        )
    for branch in config.branches:
        if branch not in branches:
            nearest = difflib.get_close_matches(branch, branches, n=3)
            hint = f"; similar: {', '.join(nearest)}" if nearest else ""
            raise ConfigError(
                f"{path} has no branch {branch!r}{hint}; name the branches with --particles, "
                "--components, --globals or --label"
            )
    return tree


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _read_tree(path: Path, tree: Any, config: ImportConfig) -> Iterator[Columns]:
    """The events of a tree as columns, in pieces."""
    pieces = tree.iterate(config.branches, step_size=EVENTS_AT_ONCE, library="ak")
    start = 0
    while True:
        try:
            arrays = next(pieces, None)
            columns = None if arrays is None else _to_columns(arrays, config)
        except MidstepError as error:
            raise FormatError(f"{path}: {error}") from None
        except Exception as error:  # noqa: BLE001 - uproot raises errors of many kinds
            raise FormatError(f"{path} cannot be read: {_reason(error)}") from None
        if columns is None:
            return
        _check_finite(path, start, columns)
        start += len(columns["globals"])
        yield columns


def _check_finite(path: Path, start: int, columns: Columns) -> None:
    for name in ("tokens_cont", "globals"):
        values = columns[name].reshape(len(columns[name]), -1)
        rows = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(rows):
            raise FormatError(
                f"{path}: event {start + int(rows[0])} has a value in {name} that is not finite; "
                "remove such events first"
            )


def _to_columns(arrays: Any, config: ImportConfig) -> Columns:
    """Tokens, types and globals of a piece of events, with the number of particles of each."""
    count = len(arrays)
    events, types, momenta = [], [], []
    for number, kind in enumerate(config.particles, start=1):
        counts, values = _flatten_particles(arrays, config.branches_of(kind))
        events.append(np.repeat(np.arange(count), counts))
        types.append(np.full(len(values), number, np.uint8))
        momenta.append(values)
    columns = pack_tokens(
        np.concatenate(events), np.concatenate(types), np.concatenate(momenta), count, config
    )
    columns["globals"] = np.stack([_flat(arrays, name) for name in config.globals], axis=1)
    if config.label is not None:
        columns["label"] = _whole_numbers(arrays, config.label)
    return columns


def _flatten_particles(
    arrays: Any, branches: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Particles of each event, and their values one after another, [particles, 4]."""
    import awkward

    counts, columns = [], []
    for branch in branches:
        column = arrays[branch]
        if column.ndim != 2:
            raise FormatError(f"the branch {branch!r} has no list of values for each event")
        counts.append(np.asarray(awkward.num(column, axis=1)))
        columns.append(np.asarray(awkward.flatten(column, axis=1), dtype=np.float32))
        if not np.array_equal(counts[0], counts[-1]):
            raise FormatError(f"{branches[0]!r} and {branch!r} differ in the number of particles")
    return counts[0], np.stack(columns, axis=1)


def _flat(arrays: Any, branch: str) -> NDArray[np.float32]:
    return np.asarray(_one_per_event(arrays, branch), dtype=np.float32)


def _one_per_event(arrays: Any, branch: str) -> Any:
    column = arrays[branch]
    if column.ndim != 1:
        raise FormatError(f"the branch {branch!r} has not one value for each event")
    return column


def _whole_numbers(arrays: Any, branch: str) -> NDArray[np.int64]:
    """Labels of events. Not by way of float32, which merges large numbers."""
    values = np.asarray(_one_per_event(arrays, branch))
    labels = np.zeros(len(values), np.int64)
    with np.errstate(invalid="ignore"):  # NaN becomes some number, which differs from it below
        labels[:] = values
    if not np.array_equal(labels, values):
        raise FormatError(
            f"the branch {branch!r} must have whole numbers; name a branch with a class, "
            "or with 1 for an anomaly, with --label"
        )
    return labels


def pack_tokens(
    events_P: NDArray[np.int64],
    types_P: NDArray[np.uint8],
    momenta_P4: NDArray[np.float32],
    count: int,
    config: ImportConfig,
) -> Columns:
    """Particles as padded tokens of their events: `tokens_cont`, `tokens_id` and `particles`."""
    transverse = np.hypot(momenta_P4[:, 0], momenta_P4[:, 1])
    by_momentum = np.lexsort((-transverse, events_P))
    rank = _position_in_event(events_P[by_momentum], count)
    kept = by_momentum[rank < config.n_tokens]
    kept = kept[np.lexsort((-transverse[kept], types_P[kept], events_P[kept]))]
    slot = _position_in_event(events_P[kept], count)
    tokens = np.zeros((count, config.n_tokens, momenta_P4.shape[1]), np.float32)
    ids = np.zeros((count, config.n_tokens), np.uint8)
    tokens[events_P[kept], slot] = momenta_P4[kept]
    ids[events_P[kept], slot] = types_P[kept]
    particles = np.bincount(events_P, minlength=count)
    return {"tokens_cont": tokens, "tokens_id": ids, "particles": particles}


def _position_in_event(sorted_events: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """0, 1, 2 … within each run of equal events."""
    starts = np.searchsorted(sorted_events, np.arange(count))
    return np.arange(len(sorted_events)) - starts[sorted_events]


# -- HDF5 -----------------------------------------------------------------------------------------


class _EventWriter:
    """Appends events to the groups of their splits."""

    def __init__(self, file: Any, config: ImportConfig) -> None:
        self._file, self._config = file, config
        self._counts: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        self._empty_events = self._dropped_particles = 0

    def add(self, columns: Columns, splits: NDArray[np.int8]) -> None:
        """Append a piece of events, each to its split."""
        particles = columns.pop("particles")
        self._empty_events += int((particles == 0).sum())
        self._dropped_particles += int(np.maximum(0, particles - self._config.n_tokens).sum())
        for number, split in enumerate(SPLITS):
            rows = np.flatnonzero((splits == number) & (particles > 0))
            for name, column in columns.items():
                self._append(f"{split}/{name}", column[rows])
            self._counts[split] += len(rows)

    def _append(self, name: str, rows: NDArray[Any]) -> None:
        if name not in self._file:
            sizes = rows.shape[1:]
            self._file.create_dataset(
                name,
                shape=(0, *sizes),
                maxshape=(None, *sizes),
                chunks=(CHUNK_EVENTS, *sizes),
                dtype=rows.dtype,
            )
        table = self._file[name]
        table.resize(len(table) + len(rows), axis=0)
        if len(rows):
            table[-len(rows) :] = rows

    def finish(self, files: Sequence[Path]) -> ImportResult:
        """Add names and units, and say what was written."""
        if empty := [name for name, count in self._counts.items() if not count]:
            raise ConfigError(f"no event is left for {', '.join(empty)}; import more events")
        config = self._config
        description = {
            "token_features": list(config.components),
            "global_features": list(config.globals),
            "type_names": ["padding", *config.particles],
            "units": {
                "tokens_cont": [config.unit] * len(config.components),
                "globals": [config.unit] * len(config.globals),
            },
            "files": [path.name for path in files],
        }
        # Bytes of fixed length: readers refuse text of variable length, whose size is unknown.
        self._file.attrs[DESCRIPTION] = np.bytes_(strict_json.dumps(description).encode())
        return ImportResult(
            splits={str(split): count for split, count in self._counts.items()},
            empty_events=self._empty_events,
            dropped_particles=self._dropped_particles,
        )
