"""Names and bounds of the files that keep what a stop showed: `artifacts/evidence/STOP.zip`.

A stop is named by the finished steps and the timeline; the end of an attempt has the suffix `-end`.
`docs/facts-format.md` describes what is in a file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from midstep.core.files.untrusted_files import open_folder, open_subfolder

FOLDER = ("artifacts", "evidence")
NAMES = r"artifacts/evidence/(?:0|[1-9]\d{0,14})(?:\.t[1-9]\d{0,8})?(?:-end)?\.zip"
MOST_STOP_BYTES = 2 << 20
"""One stop; what does not fit is named in its manifest."""
MOST_BYTES = 16 << 20
"""All stops of a run; the first and the newest are always kept."""
MOST_STOPS = 64
MOST_LISTED = 512
"""A folder with more files than this was not written by us alone: the others are not listed."""
MANIFEST = "stop.json"
BATCH = "batch.json"
FORMAT = 1
_ID = re.compile(r"(0|[1-9]\d{0,14})(?:\.t([1-9]\d{0,8}))?(-end)?")


class StopName(NamedTuple):
    """Timeline and finished steps of a stop, and whether it is the end of an attempt."""

    timeline: int
    step: int
    is_end: bool = False

    @property
    def id(self) -> str:
        """The name of its file without the suffix.

        >>> StopName(0, 12480).id, StopName(1, 80, True).id
        ('12480', '80.t1-end')
        """
        timeline = f".t{self.timeline}" if self.timeline else ""
        return f"{self.step}{timeline}" + ("-end" if self.is_end else "")

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.id}.zip"

    @classmethod
    def parse(cls, text: str) -> StopName | None:
        """Parse an id of a stop; None for any other text.

        >>> StopName.parse("80.t1-end"), StopName.parse("../80")
        (StopName(timeline=1, step=80, is_end=True), None)
        """
        match = _ID.fullmatch(text)
        if match is None:
            return None
        return cls(int(match[2] or 0), int(match[1]), match[3] is not None)


def list_stops(run_dir: Path) -> list[StopName]:
    """The stops that have a file, by timeline and step."""
    try:
        with open_folder(run_dir) as root, open_subfolder(root, FOLDER) as folder:
            files = os.listdir(folder)  # noqa: PTH208 - of an opened folder
    except OSError:  # there is none, or a link in its place
        return []
    names = (StopName.parse(name.removesuffix(".zip")) for name in files if name.endswith(".zip"))
    return sorted(name for name in names if name is not None)[:MOST_LISTED]


def picture_part(layer: str) -> str:
    """Name of the part that has the picture of the samples.

    >>> picture_part("image"), picture_part("mask")
    ('batch.png', 'batch-mask.png')
    """
    return "batch.png" if layer == "image" else f"batch-{layer}.png"


def sample_part(index: int, suffix: str, layer: str = "image") -> str:
    """Name of the part that has one sample at full resolution.

    >>> sample_part(3, "json"), sample_part(3, "png", "mask")
    ('samples/3.json', 'samples/3-mask.png')
    """
    return f"samples/{index}{'' if layer == 'image' else f'-{layer}'}.{suffix}"


def data_part(position: int) -> str:
    """Name of the part that has one entry of the step data; the manifest lists their keys."""
    return f"step_data/{position}.json"
