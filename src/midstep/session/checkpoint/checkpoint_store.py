"""`CheckpointStore`: snapshots on disk, written all at once, checked byte for byte before use."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.storage import storage_error
from midstep.core.files.untrusted_files import open_plain
from midstep.session.checkpoint.block_folder import BlockFolder
from midstep.session.checkpoint.checkpoint_folders import (
    LINKS,
    MANIFEST,
    STATE,
    TENSORS,
    CheckpointFolders,
    CheckpointName,
    linked_name,
)
from midstep.session.checkpoint.hashes import block_table, check_hash, digest, hash_tables
from midstep.session.checkpoint.manifest import (
    manifest_chunks,
    parse_manifest,
    progress_of,
    upgraded_state,
)
from midstep.session.checkpoint.state_packing import pack, unpack
from midstep.session.checkpoint.tensor_file import (
    TensorWriter,
    check_described,
    describe,
    empty_tensor,
    raw_bytes,
    read_tensors,
)
from midstep.session.state.large_arrays import BlockSizes, changes_in_places
from midstep.session.state.shared_storage import wait_for_devices
from midstep.session.state.snapshot import Snapshot

if TYPE_CHECKING:
    import torch

MOST_JSON_BYTES = 1 << 30
"""A larger document is refused before memory is allocated for it."""


Refuse = Callable[[Snapshot], str | None]
"""Returns why a valid snapshot cannot be used here, in words; None if it can."""


class CheckpointError(FormatError):
    """A checkpoint is damaged or has an unknown version; use the one before it.

    Args:
        message: what is wrong, and in which file.
        step: of the checkpoint.
        file: the path of the damaged file.
    """

    def __init__(self, message: str, *, step: int, file: Path) -> None:
        super().__init__(message)
        self.step, self.file = step, file


@dataclass(frozen=True, kw_only=True)
class LoadedCheckpoint:
    """The newest valid checkpoint."""

    snapshot: Snapshot
    path: Path
    problems: list[str]
    """Why newer ones were skipped; the caller records each as a fact."""


class CheckpointStore(CheckpointFolders):
    """The checkpoints of a run directory, as snapshots.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> store = CheckpointStore(tempfile.mkdtemp())
    >>> store.save(Snapshot.take({"model": model}, step=7)).name
    '7'
    >>> store.load().step
    7
    """

    def __init__(
        self, run_dir: str | os.PathLike[str], *, keep: int = 10, sizes: BlockSizes | None = None
    ) -> None:
        super().__init__(run_dir, keep=keep)
        self._sizes = sizes or BlockSizes()
        self.blocks = BlockFolder(self.folder)

    def save(self, snapshot: Snapshot, *, best: bool = False) -> Path:
        """Write a snapshot; it is on disk when this returns. Any thread may call it.

        Args:
            snapshot: a clone, so the training may continue meanwhile.
            best: point `best_val` and `model` to it.
        """
        packed = pack(snapshot.state_tree())
        large = {name: each for name, each in packed.tensors.items() if self._is_large(name, each)}
        small = {name: each for name, each in packed.tensors.items() if name not in large}
        state, tensors = packed.text.encode() + b"\n", TensorWriter(small)
        try:
            # Before the manifest that names them.
            blocks = self._write_blocks(large)
            # The manifest is last: it has the hashes of the other files.
            files = {
                STATE: [state],
                TENSORS: tensors.chunks(),
                MANIFEST: manifest_chunks(snapshot, state, tensors, blocks),
            }
            return self.add(snapshot.step, snapshot.timeline, files, best=best)
        finally:  # also what a full disk left of this save
            self.blocks.remove_unnamed()

    def _is_large(self, name: str, tensor: torch.Tensor) -> bool:
        return tensor.nbytes > self._sizes.large_bytes and changes_in_places(name)

    def _write_blocks(self, large: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Write the blocks that are not on disk yet; what the manifest says of each array."""
        if not large:
            return {}
        self.make_folder()
        wait_for_devices(large.values())
        arrays = {}
        for name, tensor in large.items():
            data = raw_bytes(tensor.detach().cpu().contiguous())
            size = self._sizes.block_bytes
            blocks = self.blocks.add(data, size)
            arrays[name] = {**describe(tensor), "block_bytes": size, "blocks": blocks}
        self.blocks.sync()
        return arrays

    def remove_leftovers(self) -> list[str]:
        """Remove what a killed writer left. Only the one writer of the run may call this."""
        removed = super().remove_leftovers()
        self.blocks.remove_unnamed()
        return removed

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint, newest first."""
        return [name.step for name in self.names()]

    def load(
        self,
        step: int | None = None,
        *,
        timeline: int | None = None,
        refuse: Refuse = lambda _snapshot: None,
    ) -> Snapshot:
        """The snapshot of a step, or the newest one.

        Args:
            step: finished optimizer steps.
            timeline: if the step was saved in several; the newest if left out.
            refuse: returns why a snapshot cannot be used, or None.

        Raises:
            CheckpointError: the checkpoint is damaged or refused.
        """
        if step is not None:
            return self.read(self.find(step, timeline), refuse)
        for name in self.names():
            if timeline in (None, name.timeline):
                return self.read(name, refuse)
        raise ConfigError(f"there is no checkpoint in {self.folder}; nothing to load")

    def read(self, name: CheckpointName, refuse: Refuse = lambda _snapshot: None) -> Snapshot:
        """The snapshot of a checkpoint.

        Args:
            name: of the checkpoint.
            refuse: returns why this snapshot cannot be used, or None.

        Raises:
            CheckpointError: it is damaged or refused.
        """
        path = self.path(name)
        snapshot = read_checkpoint(path)
        if (reason := refuse(snapshot)) is not None:
            raise CheckpointError(
                f"checkpoint of step {name.step}: {path} is not usable: {reason}",
                step=name.step,
                file=path / MANIFEST,
            )
        return snapshot

    def newest_valid(
        self,
        *,
        among: Callable[[CheckpointName], bool] = lambda _name: True,
        refuse: Refuse = lambda _snapshot: None,
    ) -> LoadedCheckpoint | None:
        """The newest valid snapshot, and what is wrong with newer ones; None without checkpoints.

        Args:
            among: which checkpoints to consider, by name.
            refuse: returns why a snapshot cannot be used, or None.

        Raises:
            CheckpointError: there are checkpoints, but none of them can be used. Training from the
                start again must be the user's decision.
        """
        problems: list[str] = []
        names = self.names()
        for name in names:
            if not among(name):
                problems.append(f"checkpoint {name.name}: it is of a timeline that was left")
                continue
            try:
                snapshot = self.read(name, refuse)
            except CheckpointError as error:
                problems.append(str(error))
            else:
                return LoadedCheckpoint(snapshot=snapshot, path=self.path(name), problems=problems)
        if not names:
            return None
        raise CheckpointError(
            f"none of the {len(names)} checkpoints in {self.folder} is valid: "
            + "; ".join(problems),
            step=names[0].step,
            file=self.path(names[0]) / MANIFEST,
        )


def read_checkpoint(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a checkpoint's folder. Every hash is checked before any of it is used.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    folder = _without_link(Path(path))
    name = CheckpointName.parse(folder.resolve().name)
    step = name.step if name else -1
    with _error_names(folder / MANIFEST, step) as file:
        manifest = parse_manifest(_read_document(file))
        progress = progress_of(manifest)
        files, entries = hash_tables(manifest)
        arrays = block_table(manifest)
        if name and (progress["step"], progress["timeline"]) != (name.step, name.timeline):
            raise FormatError(f"it is of step {progress['step']}; the folder was renamed")
    with _error_names(folder / STATE, step) as file:
        state = _read_document(file)
        if len(state) != files[STATE]["bytes"]:
            raise FormatError(f"it has {len(state)} bytes, not {files[STATE]['bytes']}")
        check_hash(digest(state), files[STATE]["blake2b"], "it")
    with (
        _error_names(folder / TENSORS, step) as file,
        open_plain(file.parent, file.name) as opened,
    ):
        tensors = read_tensors(opened, files[TENSORS]["header_blake2b"], entries)
    with _error_names(folder / MANIFEST, step):
        tensors |= _read_blocks(folder, arrays)
    with _error_names(folder / STATE, step):
        tree = upgraded_state(unpack(state, tensors), manifest["written"])
        return Snapshot.from_tree(tree, **progress)


def _read_blocks(folder: Path, arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The arrays that are stored in blocks, each block checked against its hash."""
    blocks, tensors = BlockFolder(folder.parent), {}
    for name, array in arrays.items():
        check_described(name, array)

        def allocate(name: str = name, array: Mapping[str, Any] = array) -> memoryview:
            tensors[name] = empty_tensor(name, array)
            return raw_bytes(tensors[name])

        blocks.read(array, allocate, folder)
    return tensors


@contextmanager
def _error_names(file: Path, step: int) -> Iterator[Path]:
    """Name the checkpoint and the file in every error of the block."""
    try:
        yield file
    except (FormatError, FileNotFoundError, NotADirectoryError) as error:
        reason = "it is missing" if isinstance(error, OSError) else str(error)
        raise CheckpointError(
            f"checkpoint of step {step}: {file} is not usable: {reason}", step=step, file=file
        ) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointError(
                f"checkpoint of step {step}: {file} is a link, which is not followed",
                step=step,
                file=file,
            ) from error
        # A disk that cannot be read is not a damaged checkpoint: an older one must not be used.
        raise storage_error(file, "read", error) from error


def _without_link(path: Path) -> Path:
    """The folder of a checkpoint; a link such as `last` must name one of its own run directory."""
    if not path.is_symlink():
        return path
    if path.name not in LINKS:  # a link of the user, somewhere else
        return path.resolve()
    name = linked_name(path)
    if name is None:
        raise CheckpointError(
            f"{path} leads to {path.readlink()}, which is not a checkpoint of this run; "
            "name the folder of the checkpoint itself",
            step=-1,
            file=path,
        )
    return path.parent / "checkpoints" / name.name


def _read_document(path: Path) -> bytes:
    with open_plain(path.parent, path.name) as file:
        if (size := os.fstat(file.fileno()).st_size) > MOST_JSON_BYTES:
            raise FormatError(f"it has {size} bytes, more than any checkpoint needs")
        return file.read()
