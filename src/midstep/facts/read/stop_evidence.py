"""Reads what a stop showed. The folder may be somebody else's: every size and type is checked."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from midstep.core import strict_json
from midstep.core.errors import FormatError
from midstep.core.files.untrusted_files import FILE_ERRORS, open_plain
from midstep.facts.format.stop_files import (
    FOLDER,
    FORMAT,
    MANIFEST,
    MOST_STOP_BYTES,
    StopName,
    list_stops,
)

MOST_PART_BYTES = 8 << 20
"""A part is at most so long when it is unpacked."""
MOST_PARTS = 2048
ZIP_ERRORS = (
    *FILE_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,  # an encrypted part
)
"""Everything that reading a damaged or foreign zip file may raise."""


@dataclass(frozen=True, kw_only=True)
class KeptStop:
    """One stop, with its manifest. Parts are read when they are requested."""

    name: StopName
    run_dir: Path
    manifest: Mapping[str, Any]
    size: int
    """Bytes of its file."""
    parts: frozenset[str] = field(default=frozenset())

    @property
    def id(self) -> str:
        """Its id, also in URLs."""
        return self.name.id

    @property
    def wall(self) -> float:
        """When it was, in seconds since 1970; 0 if the manifest does not say."""
        wall = self.manifest.get("wall")
        return float(wall) if isinstance(wall, int | float) else 0.0

    def read(self, part: str) -> bytes | None:
        """A part; None if there is none, or if it is damaged."""
        if part not in self.parts:
            return None
        try:
            with open_plain(self.run_dir, *FOLDER, self.name.file) as file:
                return _read_part(_open(file), part)
        except ZIP_ERRORS:
            return None

    def read_json(self, part: str) -> Any:
        """A part as JSON; None if there is none, or if it is damaged."""
        data = self.read(part)
        try:
            return None if data is None else strict_json.loads(data)
        except FormatError:
            return None


def read_stops(run_dir: Path) -> list[KeptStop]:
    """All stops that can be read, oldest first."""
    stops = (read_stop(run_dir, name) for name in list_stops(run_dir))
    return sorted((stop for stop in stops if stop is not None), key=_age)


def _age(stop: KeptStop) -> tuple[float, StopName]:
    return stop.wall, stop.name


def read_stop(run_dir: Path, name: StopName) -> KeptStop | None:
    """One stop; None if it has no file, or a damaged one."""
    try:
        with open_plain(run_dir, *FOLDER, name.file) as file:
            size = os.fstat(file.fileno()).st_size
            opened = _open(file)
            manifest = strict_json.loads(_read_part(opened, MANIFEST))
            parts = frozenset(opened.namelist())
    except ZIP_ERRORS:
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None
    return KeptStop(name=name, run_dir=run_dir, manifest=manifest, size=size, parts=parts)


def _open(file: BinaryIO) -> zipfile.ZipFile:
    if os.fstat(file.fileno()).st_size > 2 * MOST_STOP_BYTES:
        raise FormatError("it is larger than midstep writes such files")
    opened = zipfile.ZipFile(file)
    if len(opened.filelist) > MOST_PARTS:
        raise FormatError("it has more parts than midstep writes")
    return opened


def _read_part(opened: zipfile.ZipFile, name: str) -> bytes:
    with opened.open(name) as part:
        # By what is unpacked, not by what the file says of it: a small file can unpack to any size.
        data = part.read(MOST_PART_BYTES + 1)
    if len(data) > MOST_PART_BYTES:
        raise FormatError(f"{name} is longer than midstep writes such parts")
    return data
