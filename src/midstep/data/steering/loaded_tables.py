"""The tables that batches are gathered from: in memory, on a device, or mapped from their files."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from midstep.core.errors import DatasetError
from midstep.data.exact_search import as_tensor
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.layout import SPLITS, Form, split_table
from midstep.data.steering.storage.table_checks import check_tables
from midstep.data.steering.storage.tables import open_tables

REGION_BYTES = 2 * 1024 * 1024
"""Memory that reading one row can take: the kernel maps a whole huge page (2 MiB) if it can."""
SHARE_HELD = 0.04
"""Share of a mapped file that may be resident before its pages are released."""
STAGED_ROWS = 512
"""Rows of float16 that are widened together: few enough to stay in the CPU cache."""


class MappedPages:
    """The pages of one mapped array. They are released as soon as they have been read.

    Args:
        array: a mapped array; for an array in memory every call does nothing.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        mapping = getattr(array, "_mmap", None)
        self._map: mmap.mmap | None = mapping if isinstance(mapping, mmap.mmap) else None
        self._row_bytes = array.nbytes // max(1, len(array))
        self._regions = max(1, int(array.nbytes * SHARE_HELD) // REGION_BYTES)

    @property
    def is_mapped(self) -> bool:
        """Whether the array is mapped from a file."""
        return self._map is not None

    def release(self) -> None:
        """Release all pages; the next read takes them from the page cache of the system again."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def split_runs(self, ids: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Cut sorted ids into runs that touch no more of the file than may be resident."""
        regions = ids * self._row_bytes // REGION_BYTES
        number = np.cumsum(np.diff(regions, prepend=regions[:1]) != 0) // self._regions
        edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(ids)]
        return list(pairwise(edges))


class RowTable:
    """A table whose rows are gathered into batches.

    Args:
        array: float32, or float16, which the gather widens.
        device: where to keep the table; on the CPU the array itself is used.

    >>> table = RowTable(np.eye(3, dtype=np.float16))
    >>> table.gather(torch.tensor([2, 0]), torch.empty(2, 3)).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, array: NDArray[Any], device: torch.device | None = None) -> None:
        self.pages = MappedPages(array)
        self.tensor = as_tensor(array)
        self._array: NDArray[Any] | None = array
        if device is not None and device.type != "cpu":
            self.tensor = self.tensor.to(device)
            self.pages, self._array = MappedPages(np.empty(0)), None

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy the rows `ids` into `out`, which is float32. The ids must lie in the table."""
        if self.pages.is_mapped:
            return self._gather_mapped(ids.numpy(), out)
        if self._array is not None and self.tensor.dtype == out.dtype:
            # As fast as torch on one thread, and it starts no other threads. Those of torch wait
            # for each other, which costs more than the copy while training keeps the cores busy.
            # `clip`, because numpy buffers `out` if it has to check the ids (mode `raise`).
            np.take(self._array, ids.numpy(), axis=0, out=out.numpy(), mode="clip")
            return out
        if self.tensor.dtype == out.dtype:
            return torch.index_select(self.tensor, 0, ids, out=out)
        for start in range(0, len(ids), STAGED_ROWS):
            part = ids[start : start + STAGED_ROWS]
            out[start : start + STAGED_ROWS].copy_(torch.index_select(self.tensor, 0, part))
        return out

    def _gather_mapped(self, ids: NDArray[np.int64], out: torch.Tensor) -> torch.Tensor:
        """Gather in the order of the file, so that each page is read once and then released."""
        if not len(ids):
            return out
        order = np.argsort(ids, kind="stable")
        sorted_ids = ids[order]
        target_rows, source_rows = torch.from_numpy(order), torch.from_numpy(sorted_ids)
        for start, stop in self.pages.split_runs(sorted_ids):
            rows = torch.index_select(self.tensor, 0, source_rows[start:stop])
            out.index_copy_(0, target_rows[start:stop], rows.to(out.dtype))
            self.pages.release()
        return out


COLUMNS = (
    "pair_index",
    "pair_cluster_id",
    "pair_relevance",
    "hard_negatives",
    "negative_tiers",
    "centroid_distances",
)
STEERING = ("steering_centroid", "steering_keyword_weighted", "steering_residual")


class SteeringRows:
    """The three steering tables as one: row `v * n_pairs + pair`, and a last row of zeros.

    Args:
        tables: the three tables, of equal length.
        device: where to keep them.
        mapped: gather from the mapped tables; if False, they are copied into one table.
    """

    def __init__(self, tables: list[NDArray[Any]], device: torch.device, *, mapped: bool) -> None:
        self._pairs = len(tables[0])
        self.zero_row = len(tables) * self._pairs
        self._tables = [RowTable(each) for each in tables] if mapped else []
        self._joined = None if mapped else self._join(tables, device)

    def _join(self, tables: list[NDArray[Any]], device: torch.device) -> RowTable:
        """Copy the tables into one, so that a batch needs one gather for its steering vectors."""
        zeros = np.zeros((1, tables[0].shape[1]), dtype=tables[0].dtype)
        return RowTable(np.concatenate([*tables, zeros]), device)

    def rows(self, pairs: NDArray[np.int64], variants: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each pair under its variant; variant 0 has the zero row."""
        return np.where(variants == 0, self.zero_row, (variants - 1) * self._pairs + pairs)

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy the rows `ids` into `out`."""
        if self._joined is not None:
            return self._joined.gather(ids, out)
        out.zero_()
        table_of_id = torch.div(ids, max(1, self._pairs), rounding_mode="floor")
        for number, table in enumerate(self._tables):
            positions = torch.nonzero(table_of_id == number).view(-1)
            if len(positions):
                staged = torch.empty(len(positions), out.shape[1])
                table.gather(ids[positions] - number * self._pairs, staged)
                out.index_copy_(0, positions, staged)
        return out

    def release(self) -> None:
        """Release the pages of mapped tables."""
        for table in self._tables:
            table.pages.release()


@dataclass(frozen=True, kw_only=True)
class LoadedTables:
    """Everything that batches are gathered from."""

    folder: Path
    form: Form
    mapped: bool
    config: DatasetConfig
    device: torch.device
    digests: Mapping[str, str]
    """The digest of every table."""
    digested_whole: bool
    """Whether the digests cover all rows, and not a sample of them."""
    splits: Mapping[str, NDArray[np.int64]]
    """Pair ids of each split."""
    columns: Mapping[str, NDArray[Any]]
    """Narrow tables with one row for each pair."""
    pages: Mapping[str, MappedPages]
    """The pages of the columns."""
    questions: RowTable
    sources: RowTable
    steering: SteeringRows

    @classmethod
    def load(
        cls,
        folder: Path,
        form: Form | Literal["auto"],
        device: torch.device,
        *,
        mapped: bool,
        verify: bool,
    ) -> LoadedTables:
        """Open, check and load a dataset."""
        tables = open_tables(folder, form, verify=verify)
        if mapped and (tables.form != "memmap" or device.type != "cpu"):
            raise DatasetError(
                f"mapped=True needs the form memmap on the CPU; {folder} has the form "
                f"{tables.form} and the device is {device}; convert it first: "
                f"midstep data convert {folder} NEW --form memmap"
            )
        if verify:
            check_tables(tables, tables.config.counts, tables.label, str(folder))

        def table(name: str) -> Any:
            # Forms other than memmap are in memory already: reading them again would copy them.
            is_ready = mapped or tables.form != "memmap"
            return tables[name] if is_ready else tables.read(name, mapped=False)

        columns = {name: table(name) for name in COLUMNS}
        loaded = cls(
            folder=tables.folder,
            form=tables.form,
            mapped=mapped,
            config=tables.config,
            device=device,
            digests={name: tables.digest(name, whole=verify) for name in tables},
            digested_whole=verify or tables.config.tables.keys() >= tables.keys(),
            splits={split: np.array(tables[split_table(split)]) for split in SPLITS},
            columns=columns,
            pages={name: MappedPages(column) for name, column in columns.items()},
            questions=RowTable(table("question_embs"), device),
            sources=RowTable(table("source_embs"), device),
            steering=SteeringRows([tables[name] for name in STEERING], device, mapped=mapped),
        )
        loaded.release()
        return loaded

    def __reduce__(self) -> Any:
        """Pickle how to open the dataset: a worker started with `spawn` opens it again."""
        # Not verified again: that would read every file once more in each worker.
        load = partial(LoadedTables.load, mapped=self.mapped, verify=False)
        return load, (self.folder, self.form, self.device)

    def column(self, name: str, pairs: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of a narrow table; float16 becomes float32."""
        rows = self.columns[name][pairs]
        self.pages[name].release()
        return rows if rows.dtype != np.float16 else rows.astype(np.float32)

    def check_rows(self, ends: NDArray[np.int64], negatives: NDArray[np.int64]) -> None:
        """Raise if an id of a question or source does not lie in its table.

        The gather does not check ids, and a dataset opened with verify=False was not checked.
        """
        for kind, ids, count in (
            ("question", ends[:, 0], self.config.n_questions),
            ("source", ends[:, 1], self.config.n_sources),
            ("negative", negatives, self.config.n_sources),
        ):
            if ids.size and not 0 <= ids.min() <= ids.max() < count:
                wrong = int(ids[(ids < 0) | (ids >= count)][0])
                raise DatasetError(
                    f"{self.folder}: a pair names the {kind} {wrong}, expected 0 to {count - 1}; "
                    "open it with verify=True, which names the file and the row"
                )

    def to_device(self, array: NDArray[Any]) -> torch.Tensor:
        """An array as a tensor on the device of the tables."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor if self.device.type == "cpu" else tensor.to(self.device, non_blocking=True)

    def release(self) -> None:
        """Release the pages that loading and checking have read."""
        for each in self.pages.values():
            each.release()
        self.questions.pages.release()
        self.sources.pages.release()
        self.steering.release()
