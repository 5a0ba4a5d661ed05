"""`ClusterLabeledDataset`: samples whose labels are shares of clusters, for domain classifiers.

Embeddings are mapped from their files, and labels are one array in memory. Texts and metadata are
read from SQLite on request; the rows used last are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from midstep.core.errors import ConfigError, DatasetError
from midstep.core.field_checks import at_least, one_of, require
from midstep.data.cluster_labels.label_formulas import combined_labels
from midstep.data.cluster_labels.sample_database import (
    DATABASE_NAME,
    FILES,
    SampleDatabase,
    read_embeddings,
    read_information,
    read_labels,
)
from midstep.data.steering.loaded_tables import RowTable

LabelType = Literal["combined", "source", "steering"]
LABEL_TYPES = ("combined", "source", "steering")
Sample = tuple[Any, ...]
Positions = Sequence[int] | torch.Tensor


class GatheredSamples(Sequence[Sample]):
    """A batch that was gathered as columns. Code that expects a list of samples can use it as one.

    Args:
        columns: base embeddings, steering embeddings, labels, and metadata if requested.
    """

    def __init__(self, columns: Sample) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: Any) -> Any:
        return tuple(column[index] for column in self.columns)

    def __iter__(self) -> Iterator[Sample]:
        return zip(*self.columns, strict=True)


class ClusterLabeledDataset(Dataset[Sample]):
    """Samples `(base_emb, steering_emb, label)`; `write_cluster_dataset` writes such a dataset.

    Args:
        dataset_dir: the folder with `dataset.db` and the `.npy` files; it may have been moved.
        label_type: `combined`, `source` or `steering`.
        cache_size: how many rows of metadata stay in memory; the ones used last do.
        mmap_mode: `r` maps the embeddings, None reads them into memory.
        return_metadata: add the sample's metadata as a fourth part.
        verify: compare the files with their hashes.

    Raises:
        DatasetError: if a file is wrong, with every problem.

    >>> dataset = ClusterLabeledDataset("data/domains")  # doctest: +SKIP
    >>> loader = DataLoader(  # doctest: +SKIP
    ...     dataset, batch_size=256, shuffle=True, collate_fn=dataset.collate
    ... )
    >>> for base, steering, label in loader: ...  # doctest: +SKIP
    """

    def __init__(
        self,
        dataset_dir: str | Path,
        label_type: LabelType = "combined",
        cache_size: int = 1000,
        mmap_mode: Literal["r"] | None = "r",
        return_metadata: bool = False,
        *,
        verify: bool = True,
    ) -> None:
        require(
            one_of("label_type", label_type, LABEL_TYPES), at_least("cache_size", cache_size, 0)
        )
        if mmap_mode not in ("r", None):
            raise ConfigError(
                f"mmap_mode must be 'r' or None, got {mmap_mode!r}: datasets are read-only"
            )
        self.folder = Path(dataset_dir).absolute()
        self.label_type, self.cache_size, self.mmap_mode = label_type, cache_size, mmap_mode
        self.return_metadata = return_metadata
        self._database = SampleDatabase(self.folder / DATABASE_NAME)
        self._cache: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self.info = read_information(self._database)
        self._open(verify=verify)
        self._database.close()  # so that workers do not inherit an open connection by a fork

    def _open(self, *, verify: bool) -> None:
        files = self._database.embeddings()
        mapped = self.mmap_mode == "r"
        arrays = read_embeddings(self.folder, files, self.info, mapped=mapped, verify=verify)
        self._checksums = {name: str(file.sha256) for name, file in files.items()}
        # As plain arrays, so that `RowTable` does not release their pages after every batch.
        base, steering, self._centroids = (arrays[name].view(np.ndarray) for name in FILES)
        self._base, self._steering = RowTable(base), RowTable(steering)
        source, steering_label = read_labels(self._database, self.info)
        if self.label_type == "combined":
            weight = float(self.info["combined_weight"])
            labels = combined_labels(source, steering_label, weight=weight)
        else:
            labels = source if self.label_type == "source" else steering_label
        self.labels = torch.from_numpy(np.ascontiguousarray(labels))

    # -- description ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.info["n_samples"])

    @property
    def n_clusters(self) -> int:
        """Width of a label."""
        return int(self.info["n_clusters"])

    @property
    def embedding_dim(self) -> int:
        """Width of an embedding."""
        return int(self.info["embedding_dim"])

    @property
    def centroids(self) -> NDArray[Any]:
        """[C, D], read-only."""
        return self._centroids

    def fingerprint(self) -> dict[str, str]:
        """Short digests of files and settings, to recognise the same data in any folder."""
        return {
            **{name: digest[:16] for name, digest in sorted(self._checksums.items())},
            "labels": str(self.info["labels_sha256"])[:16],
            "label_type": self.label_type,
            "combined_weight": repr(self.info["combined_weight"]),
        }

    # -- samples ----------------------------------------------------------------------------------

    def __getitem__(self, index: int) -> Sample:
        position = range(len(self))[index]
        sample = GatheredSamples(self.batch([position]))[0]
        return (*sample, self.metadata(position)) if self.return_metadata else sample

    def __getitems__(self, indices: Positions) -> GatheredSamples:
        """A whole batch with one gather per table; a `DataLoader` calls this."""
        columns = self.batch(indices)
        if self.return_metadata:
            columns = (*columns, self.metadata_of(torch.as_tensor(indices).tolist()))
        return GatheredSamples(columns)

    def batch(self, positions: Positions) -> Sample:
        """Base embeddings, steering embeddings [B, D] and labels [B, C] of these samples."""
        ids = torch.as_tensor(positions, dtype=torch.int64)
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= len(self)):
            raise IndexError(f"samples are numbered 0 to {len(self) - 1}, got {ids.tolist()}")
        shape = (len(ids), self.embedding_dim)
        base = self._base.gather(ids, torch.empty(shape))
        steering = self._steering.gather(ids, torch.empty(shape))
        return base, steering, torch.index_select(self.labels, 0, ids)

    @staticmethod
    def collate(samples: Sequence[Sample]) -> Sample:
        """For `DataLoader(…, collate_fn=dataset.collate)`: keeps a batch as it was gathered."""
        if isinstance(samples, GatheredSamples):
            return samples.columns
        vectors = [torch.stack([each[part] for each in samples]) for part in range(3)]
        return (*vectors, *([each[part] for each in samples] for part in range(3, len(samples[0]))))

    # -- metadata ---------------------------------------------------------------------------------

    def metadata(self, index: int) -> dict[str, Any]:
        """Id, text, suggestions and metadata of a sample."""
        return self.metadata_of([index])[0]

    def metadata_of(self, positions: Sequence[int]) -> list[dict[str, Any]]:
        """The same for several samples, with one query."""
        rows = {each: self._cache[each] for each in positions if each in self._cache}
        missing = sorted(set(positions) - rows.keys())
        if missing:
            rows.update(self._database.metadata(missing))
        lost = next((each for each in missing if each not in rows), None)
        if lost is not None:
            raise DatasetError(f"{self._database.path}: samples has no row {lost}")
        for each in positions:
            self._cache[each] = rows[each]
            self._cache.move_to_end(each)
            if len(self._cache) > self.cache_size:
                self._cache.popitem(last=False)
        return [rows[each] for each in positions]

    def prefill_cache(self, positions: Iterable[int] | None = None) -> int:
        """Read metadata into the cache, by default of the first samples; return how many."""
        wanted = list(range(len(self)) if positions is None else positions)[: self.cache_size]
        self.metadata_of(wanted)
        return len(wanted)

    def clear_cache(self) -> None:
        """Empty the cache of metadata."""
        self._cache.clear()

    @property
    def cached(self) -> tuple[int, ...]:
        """Samples whose metadata is in memory; the one used last comes last."""
        return tuple(self._cache)

    def close(self) -> None:
        """Close the database connection of this process; the next query opens another."""
        self._database.close()

    def __reduce__(self) -> Any:
        """Pickle how to open the dataset: a mapped array would be pickled with all its values."""
        settings = self.label_type, self.cache_size, self.mmap_mode, self.return_metadata
        return partial(type(self), verify=False), (self.folder, *settings)
