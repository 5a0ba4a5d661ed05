"""Writes what a stop showed into one file, and keeps all of them within a bound."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.files.masked_text import mask_page_tokens
from midstep.core.files.storage import make_subfolder, remove_temporaries, replace_bytes
from midstep.facts.format.stop_files import (
    FOLDER,
    FORMAT,
    MANIFEST,
    MOST_BYTES,
    MOST_STOP_BYTES,
    MOST_STOPS,
    StopName,
)
from midstep.facts.read.stop_evidence import read_stops

MANIFEST_BYTES = 128 << 10
"""Room for the manifest, which is written last."""
ENTRY_BYTES = 400
"""Bytes that a part takes besides its content, at most."""
MOST_NAMED = 64
"""Parts that are named as left out."""
RANK_OF_CAUSE = {"step": 0, "run_until": 1, "pause": 1}
"""What is removed first. Every other cause, such as a breakpoint, has rank 2."""

Part = tuple[str, bytes]


@dataclass(frozen=True, kw_only=True)
class WrittenStop:
    """A stop that has a file."""

    name: StopName
    cause: str
    bytes: int
    order: int
    """Later ones have a larger number."""


class StopWriter:
    """Writes the files of the stops of one run. One thread at a time.

    Args:
        run_dir: the run directory; the files of earlier attempts count too.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir, self._folder = run_dir, run_dir.joinpath(*FOLDER)
        self._written: dict[str, WrittenStop] = {}
        self._order = 0
        linked = self._folder.is_symlink() or self._folder.parent.is_symlink()
        if self._folder.is_dir() and not linked:
            remove_temporaries(self._folder)
            for stop in read_stops(run_dir):
                self._note(stop.name, str(stop.manifest.get("cause")), stop.size)

    def write(self, name: StopName, manifest: Mapping[str, Any], parts: Iterable[Part]) -> int:
        """Write a stop atomically; returns the size of its file.

        Args:
            name: of the stop; a file with this name is replaced.
            manifest: what is known of the stop; `left_out` is added.
            parts: by importance: those that do not fit any more are left out.
        """
        data = _pack(manifest, parts)
        make_subfolder(self._run_dir, *FOLDER)
        replace_bytes(self._folder / name.file, data, mode=0o600)
        before = max(self._written.values(), key=lambda stop: stop.order, default=None)
        self._note(name, str(manifest["cause"]), len(data))
        if before is not None and before.cause == manifest["cause"] == "step":
            self._remove(before)  # of single steps in a row the last one stays
        for old in too_many(self._written.values()):
            self._remove(old)
        return len(data)

    def _remove(self, stop: WrittenStop) -> None:
        if self._written.get(stop.name.id) is stop:  # else it was written again
            del self._written[stop.name.id]
            with suppress(FileNotFoundError):
                (self._folder / stop.name.file).unlink()

    def _note(self, name: StopName, cause: str, size: int) -> None:
        self._order += 1
        self._written[name.id] = WrittenStop(name=name, cause=cause, bytes=size, order=self._order)


def _pack(manifest: Mapping[str, Any], parts: Iterable[Part]) -> bytes:
    """A zip file of at most `MOST_STOP_BYTES`."""
    file, left_out = io.BytesIO(), []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        room = MOST_STOP_BYTES - MANIFEST_BYTES
        for name, data in parts:
            is_picture = name.endswith(".png")  # packed already
            if name.endswith((".json", ".txt")) and b"token" in data:
                data = mask_page_tokens(data.decode()).encode()  # noqa: PLW2901 - the masked one
            size = len(data) if is_picture else len(zlib.compress(data, 6))
            if size + ENTRY_BYTES > room:
                left_out.append(name)
                continue
            room -= size + ENTRY_BYTES
            packed.writestr(
                _entry(name, zipfile.ZIP_STORED if is_picture else zipfile.ZIP_DEFLATED), data
            )
        described = {**manifest, "format": FORMAT, "left_out": left_out[:MOST_NAMED]}
        text = mask_page_tokens(strict_json.dumps(described))
        packed.writestr(_entry(MANIFEST, zipfile.ZIP_DEFLATED), text.encode())
    return file.getvalue()


def _entry(name: str, kind: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.external_attr = kind, 0o600 << 16
    return entry


def too_many(written: Iterable[WrittenStop]) -> Iterator[WrittenStop]:
    """The stops to remove: single steps first, then pauses, of each those nearest to another.

    The first stop, the newest one and the newest end stay.
    """
    left = sorted(written, key=lambda stop: stop.order)
    while len(left) > MOST_STOPS or sum(stop.bytes for stop in left) > MOST_BYTES:
        ends = [stop for stop in left if stop.name.is_end]
        kept = {left[0].name, left[-1].name, *(stop.name for stop in ends[-1:])}
        others = [index for index, stop in enumerate(left) if stop.name not in kept]
        if not others:
            return
        yield left.pop(min(others, key=lambda index: _worth(left, index)))


def _worth(stops: list[WrittenStop], index: int) -> tuple[int, int, int]:
    """Sort key: the least one is removed."""
    stop = stops[index]
    gap = stops[index + 1].name.step - stops[index - 1].name.step
    return RANK_OF_CAUSE.get(stop.cause, 2), abs(gap), stop.order
