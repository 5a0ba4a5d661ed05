"""Snapshots on disk: written all at once, checked byte for byte before use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.storage import storage_error
from midstep.session.checkpoint.checkpoint_folders import (
    MANIFEST,
    STATE,
    TENSORS,
    CheckpointFolders,
    CheckpointName,
)
from midstep.session.checkpoint.manifest import (
    later,
    manifest_bytes,
    parse_manifest,
    progress_of,
    upgraded_state,
)
from midstep.session.checkpoint.packing import pack, unpack
from midstep.session.checkpoint.tensor_file import TensorWriter, digest, read_tensors
from midstep.session.state.snapshot import Snapshot

__all__ = ["CheckpointError", "CheckpointStore", "LoadedCheckpoint", "read_checkpoint"]

MOST_JSON_BYTES = 1 << 30
"""No memory is taken for a document beyond this."""


class CheckpointError(FormatError):
    """A checkpoint is damaged or of an unknown version; use the one before it.

    Args:
        message: what is wrong, and in which file.
        step: of the checkpoint.
        file: the path of the file that is wrong.
    """

    def __init__(self, message: str, *, step: int, file: Path) -> None:
        super().__init__(message)
        self.step, self.file = step, file


@dataclass(frozen=True, kw_only=True)
class LoadedCheckpoint:
    """The newest checkpoint that is whole."""

    snapshot: Snapshot
    path: Path
    problems: list[str]
    """Why newer ones were passed over; worth a fact each."""


class CheckpointStore:
    """The checkpoints of a run directory.

    Args:
        run_dir: the run directory.
        keep: how many to keep; the best and the last stay in any case.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> kept = CheckpointStore(tempfile.mkdtemp())
    >>> kept.save(Snapshot.take({"model": model}, step=7)).name
    '7'
    >>> kept.load().step
    7
    """

    def __init__(self, run_dir: str | os.PathLike[str], *, keep: int = 10) -> None:
        self.shelf = CheckpointFolders(run_dir, keep=keep)

    def save(self, snapshot: Snapshot, *, best: bool = False) -> Path:
        """Write a snapshot; when this returns, it is on the disk. Any thread may call it.

        Args:
            snapshot: it belongs to nobody else, so training may go on meanwhile.
            best: let `best_val` and `model` lead to it.
        """
        packed = pack(snapshot.state_tree())
        state, tensors = packed.text.encode() + b"\n", TensorWriter(packed.tensors)
        files = {
            STATE: [state],
            TENSORS: tensors.chunks(),
            MANIFEST: later(lambda: manifest_bytes(snapshot, state, tensors)),
        }
        return self.shelf.add(snapshot.step, snapshot.timeline, files, best=best)

    def mark_best(self, path: Path) -> None:
        """Let `best_val`, and through it `model`, lead to this checkpoint."""
        self.shelf.mark_best(path)

    def remove_leftovers(self) -> list[str]:
        """Remove what a kill left behind; for the one writer of the run, at its start."""
        return self.shelf.remove_leftovers()

    @property
    def steps(self) -> list[int]:
        """The steps that have a checkpoint, newest first."""
        return [place.step for place in self.shelf.places()]

    def load(self, step: int | None = None, *, timeline: int | None = None) -> Snapshot:
        """The snapshot of a step, else the newest; refused with `CheckpointError` if not whole.

        Args:
            step: finished optimizer steps.
            timeline: where the step was saved in several; the newest when left out.
        """
        return read_checkpoint(self.shelf.path(self._choose(step, timeline)))

    def _choose(self, step: int | None, timeline: int | None) -> CheckpointName:
        if step is not None:
            return self.shelf.find(step, timeline)
        places = [p for p in self.shelf.places() if timeline in (None, p.timeline)]
        if not places:
            raise ConfigError(f"there is no checkpoint in {self.shelf.folder}; nothing to load")
        return places[0]

    def newest_valid(self) -> LoadedCheckpoint | None:
        """The newest whole snapshot, and what is wrong with newer ones; None: no checkpoint.

        If there are some, but not one of them is whole, that is a `CheckpointError` too: starting
        from nothing must be somebody's choice.
        """
        problems: list[str] = []
        places = self.shelf.places()
        for place in places:
            path = self.shelf.path(place)
            try:
                return LoadedCheckpoint(
                    snapshot=read_checkpoint(path), path=path, problems=problems
                )
            except CheckpointError as error:
                problems.append(str(error))
        if not places:
            return None
        newest = places[0]
        raise CheckpointError(
            f"none of the {len(places)} checkpoints in {self.shelf.folder} is whole: "
            + "; ".join(problems),
            step=newest.step,
            file=self.shelf.path(newest) / MANIFEST,
        )


def read_checkpoint(path: str | os.PathLike[str]) -> Snapshot:
    """The snapshot in a checkpoint's folder, every hash checked before any of it is used."""
    folder = Path(path)
    place = CheckpointName.of(folder.resolve().name)
    step = place.step if place else -1
    with _Naming(folder / MANIFEST, step):
        manifest = parse_manifest(_read_document(folder / MANIFEST))
        progress = progress_of(manifest)
        files, entries = _tables(manifest)
        if place and (progress["step"], progress["timeline"]) != (place.step, place.timeline):
            raise FormatError(f"it is of step {progress['step']}; the folder was renamed")
    with _Naming(folder / STATE, step):
        state = _read_document(folder / STATE)
        if len(state) != files[STATE]["bytes"] or digest(state) != files[STATE]["blake2b"]:
            raise FormatError("it does not match its hash")
    with _Naming(folder / TENSORS, step), _open(folder / TENSORS) as file:
        tensors = read_tensors(file, files[TENSORS]["header_blake2b"], entries)
    with _Naming(folder / STATE, step):
        tree = upgraded_state(unpack(state, tensors), manifest["written"])
        return Snapshot.from_tree(tree, **progress)


class _Naming:
    """Names the checkpoint and the file in every error about what is in them."""

    def __init__(self, file: Path, step: int) -> None:
        self._file, self._step = file, step

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FormatError | FileNotFoundError | NotADirectoryError):
            reason = "it is missing" if isinstance(error, OSError) else str(error)
            raise CheckpointError(
                f"checkpoint of step {self._step}: {self._file} is not usable: {reason}",
                step=self._step,
                file=self._file,
            ) from error
        if isinstance(error, OSError):
            raise storage_error(self._file, "read", error) from error


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _read_document(path: Path) -> bytes:
    if (size := path.stat().st_size) > MOST_JSON_BYTES:
        raise FormatError(f"{size} bytes are more than a checkpoint can need")
    return path.read_bytes()


def _tables(manifest: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The tables of files and of tensors, with every field that will be asked for."""
    try:
        files, entries = manifest["files"], manifest["tensors"]
        for table, field in (
            (files[STATE], "bytes"),
            (files[STATE], "blake2b"),
            (files[TENSORS], "header_blake2b"),
            *((entry, "blake2b") for entry in entries.values()),
        ):
            table[field]
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"its table of files is incomplete: {error}") from None
    return files, entries
