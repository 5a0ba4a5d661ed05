"""The tables of a dataset where batches are drawn from them: in memory, on a device, or mapped."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from midstep.core.errors import DatasetError
from midstep.data.exact_search import as_tensor
from midstep.data.steering.storage.dataset_config import DatasetConfig
from midstep.data.steering.storage.layout import SPLITS, Form, split_table
from midstep.data.steering.storage.table_checks import check_tables
from midstep.data.steering.storage.tables import Tables, open_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray


REGION_BYTES = 2 * 1024 * 1024
"""What one touched row may make resident: the kernel maps a whole huge page where it can."""
SHARE_HELD = 0.04
"""Of a mapped file, what may be resident before its pages are released."""
STAGED_ROWS = 512
"""Rows of half precision that are widened together, while they lie in the cache."""


class MappedPages:
    """The pages of one mapped array, which are released as soon as they have been read.

    Args:
        array: mapped, or in memory, which makes every call do nothing.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        found = getattr(array, "_mmap", None)
        self._map: mmap.mmap | None = found if isinstance(found, mmap.mmap) else None
        self._row_bytes = array.nbytes // max(1, len(array))
        self._regions = max(1, int(array.nbytes * SHARE_HELD) // REGION_BYTES)

    @property
    def is_mapped(self) -> bool:
        """Whether there is a file behind the array."""
        return self._map is not None

    def release(self) -> None:
        """Give all pages back; the next read faults them in again from the system's cache."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def split_runs(self, ids: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Rising ids in runs that touch no more of the file than may be resident."""
        regions = ids * self._row_bytes // REGION_BYTES
        number = np.cumsum(np.diff(regions, prepend=regions[:1]) != 0) // self._regions
        edges = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(ids)]
        return list(pairwise(edges))


class RowTable:
    """A table of rows from which a batch is gathered.

    Args:
        array: float32, or float16, which is widened on the way.
        device: where to keep it; on the CPU the array itself is used.

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
        """Rows `ids`, which must lie in the table, into `out`, which is float32."""
        if self.pages.is_mapped:
            return self._gather_mapped(ids.numpy(), out)
        if self._array is not None and self.tensor.dtype == out.dtype:
            # As fast as torch in one thread, and it starts no others: torch's own wait for each
            # other, which costs more than the rows once the cores are busy with training.
            np.take(self._array, ids.numpy(), axis=0, out=out.numpy(), mode="clip")
            return out
        if self.tensor.dtype == out.dtype:
            return torch.index_select(self.tensor, 0, ids, out=out)
        for start in range(0, len(ids), STAGED_ROWS):
            part = ids[start : start + STAGED_ROWS]
            out[start : start + STAGED_ROWS].copy_(torch.index_select(self.tensor, 0, part))
        return out

    def _gather_mapped(self, ids: NDArray[np.int64], out: torch.Tensor) -> torch.Tensor:
        """In the order of the file, so that a page is touched once, and released behind us."""
        if not len(ids):
            return out
        order = np.argsort(ids, kind="stable")
        rising = ids[order]
        where, sorted_ids = torch.from_numpy(order), torch.from_numpy(rising)
        for start, stop in self.pages.split_runs(rising):
            rows = torch.index_select(self.tensor, 0, sorted_ids[start:stop])
            out.index_copy_(0, where[start:stop], rows.to(out.dtype))
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
        tables: the three, of equal length.
        device: where to keep them.
        mapped: read from the tables as they are; else they are copied.
    """

    def __init__(self, tables: list[NDArray[Any]], device: torch.device, *, mapped: bool) -> None:
        self._pairs = len(tables[0])
        self.zero_row = len(tables) * self._pairs
        self._tables = [RowTable(each) for each in tables] if mapped else []
        self._joined = None if mapped else self._join(tables, device)

    def _join(self, tables: list[NDArray[Any]], device: torch.device) -> RowTable:
        """In memory one table is one gather."""
        width = tables[0].shape[1]
        dtype = np.result_type(*(each.dtype for each in tables))
        joined = np.zeros((self.zero_row + 1, width), dtype=dtype)
        for number in range(len(tables)):
            joined[number * self._pairs : (number + 1) * self._pairs] = tables[number]
        return RowTable(joined, device)

    def rows(self, pairs: NDArray[np.int64], variants: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each pair under its variant (0 is the zero row)."""
        return np.where(variants == 0, self.zero_row, (variants - 1) * self._pairs + pairs)

    def gather(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Rows `ids` into `out`."""
        if self._joined is not None:
            return self._joined.gather(ids, out)
        out.zero_()
        owner = torch.div(ids, max(1, self._pairs), rounding_mode="floor")
        for number, table in enumerate(self._tables):
            mine = torch.nonzero(owner == number).view(-1)
            if len(mine):
                staged = torch.empty(len(mine), out.shape[1])
                table.gather(ids[mine] - number * self._pairs, staged)
                out.index_copy_(0, mine, staged)
        return out

    def release(self) -> None:
        """Give back the pages of mapped tables."""
        for table in self._tables:
            table.pages.release()


@dataclass(frozen=True, kw_only=True)
class LoadedTables:
    """Everything a batch is made of."""

    folder: Path
    form: Form
    mapped: bool
    config: DatasetConfig
    device: torch.device
    digests: Mapping[str, str]
    """Of every table."""
    digested_whole: bool
    """Whether from all rows, and not from a sample."""
    splits: Mapping[str, NDArray[np.int64]]
    """Pair ids of each split."""
    columns: Mapping[str, NDArray[Any]]
    """One row a pair, narrow."""
    pages: Mapping[str, MappedPages]
    """Of the columns."""
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
                f"mapped needs the form memmap on the CPU, {folder} is {tables.form} for {device}; "
                f"convert it first: midstep data convert {folder} NEW --form memmap"
            )
        if verify:
            check_tables(tables, tables.config.counts, tables.label, str(folder))
        return cls._from_tables(tables, device, mapped=mapped, verify=verify)

    @classmethod
    def _from_tables(
        cls, tables: Tables, device: torch.device, *, mapped: bool, verify: bool
    ) -> LoadedTables:
        def table(name: str) -> NDArray[Any]:
            kept = mapped or tables.form != "memmap"  # the other forms lie in memory already
            found: NDArray[Any] = tables[name] if kept else tables.read(name, mapped=False)
            return found

        columns = {name: table(name) for name in COLUMNS}
        made = cls(
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
        made.release()
        return made

    def __reduce__(self) -> Any:
        """A worker that is not forked opens the dataset again; what was checked stays checked."""
        load = partial(LoadedTables.load, mapped=self.mapped, verify=False)
        return load, (self.folder, self.form, self.device)

    def column(self, name: str, pairs: NDArray[np.int64]) -> NDArray[Any]:
        """Rows of a narrow table; `float` columns come as float32."""
        found = self.columns[name][pairs]
        self.pages[name].release()
        return found if found.dtype != np.float16 else found.astype(np.float32)

    def check_rows(self, ends: NDArray[np.int64], negatives: NDArray[np.int64]) -> None:
        """Ids of questions and sources must lie in their tables, verified when opened or not."""
        for what, ids, count in (
            ("question", ends[:, 0], self.config.n_questions),
            ("source", ends[:, 1], self.config.n_sources),
            ("negative", negatives, self.config.n_sources),
        ):
            if ids.size and not 0 <= ids.min() <= ids.max() < count:
                wrong = int(ids[(ids < 0) | (ids >= count)][0])
                raise DatasetError(
                    f"{self.folder}: a pair names the {what} {wrong}, expected 0 to {count - 1}; "
                    "open it with verify=True, which names file and place"
                )

    def steering_rows(
        self, pairs: NDArray[np.int64], variants: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Rows of the steering tables."""
        return self.steering.rows(pairs, variants)

    def to_device(self, array: NDArray[Any]) -> torch.Tensor:
        """A column of a plan where the gather takes place."""
        made = torch.from_numpy(np.ascontiguousarray(array))
        return made if self.device.type == "cpu" else made.to(self.device, non_blocking=True)

    def release(self) -> None:
        """Give back the pages that loading and checking have touched."""
        for each in self.pages.values():
            each.release()
        self.questions.pages.release()
        self.sources.pages.release()
        self.steering.release()
