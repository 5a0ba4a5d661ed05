"""The tables of a dataset where batches are drawn from them: in memory, on a device, or mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from midstep.core.errors import DatasetError
from midstep.data.embedding.checks import check_tables
from midstep.data.embedding.config import DatasetConfig
from midstep.data.embedding.layout import SPLITS, Form, split_table
from midstep.data.embedding.rows import Pages, RowTable
from midstep.data.embedding.tables import Tables, open_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Memory", "SteeringRows"]

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
class Memory:
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
    pages: Mapping[str, Pages]
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
    ) -> Memory:
        """Open, check and load a dataset."""
        tables = open_tables(folder, form, verify=verify)
        if mapped and (tables.form != "memmap" or device.type != "cpu"):
            raise DatasetError(
                f"mapped needs the form memmap on the CPU, {folder} is {tables.form} for {device}; "
                f"convert it first: midstep dataset convert {folder} NEW --form memmap"
            )
        if verify:
            check_tables(tables, tables.config.counts, tables.label, str(folder))
        return cls._of(tables, device, mapped=mapped, verify=verify)

    @classmethod
    def _of(cls, tables: Tables, device: torch.device, *, mapped: bool, verify: bool) -> Memory:
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
            pages={name: Pages(column) for name, column in columns.items()},
            questions=RowTable(table("question_embs"), device),
            sources=RowTable(table("source_embs"), device),
            steering=SteeringRows([tables[name] for name in STEERING], device, mapped=mapped),
        )
        made.release()
        return made

    def __reduce__(self) -> Any:
        """A worker that is not forked opens the dataset again; what was checked stays checked."""
        load = partial(Memory.load, mapped=self.mapped, verify=False)
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
