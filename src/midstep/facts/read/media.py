"""Reads what a run logged besides numbers. Another user may have written the folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from midstep.core.files.untrusted_files import FILE_ERRORS, open_folder, open_plain, open_subfolder
from midstep.facts.format.media_files import (
    FOLDER,
    GROUP_NAME,
    LARGEST_ITEM_BYTES,
    MOST_GROUPS,
    MediaIndex,
    MediaItem,
    file_name,
    read_index,
)
from midstep.facts.read.timelines import CurrentTimeline, TimelinePath

MOST_NAMES = 10_000
"""Names of the folder that are looked at; midstep makes a hundred."""


@dataclass(frozen=True, kw_only=True)
class StoredMedia:
    """All that is kept of what was logged under one name, as one kind."""

    id: str
    """Name of its folder."""
    index: MediaIndex
    items: Sequence[MediaItem]
    """The items of the present timeline, in the order of their steps."""
    abandoned: int
    """Items of steps that were left by going back."""

    @property
    def bytes(self) -> int:
        """What its items take on disk."""
        return sum(item.bytes for item in self.index.items)


class MediaReader:
    """Reads the media of a run, from any thread; each call reads the indexes again.

    Args:
        run_dir: the run directory.
    """

    def __init__(self, run_dir: str | Path) -> None:
        self._run_dir = Path(run_dir)
        self._lock = threading.Lock()
        self._timeline = CurrentTimeline(run_dir)

    def groups(self) -> list[StoredMedia]:
        """Everything that was logged, by name; a damaged group is left out."""
        groups = [self.group(name) for name in self._names()]
        return sorted(
            (each for each in groups if each is not None),
            key=lambda each: (each.index.key, each.index.kind),
        )

    def group(self, group_id: str) -> StoredMedia | None:
        """One group; None if there is none with this id, or its index is damaged."""
        if GROUP_NAME.fullmatch(group_id) is None:
            return None
        try:
            index = read_index(self._run_dir, group_id)
        except FILE_ERRORS:
            return None
        with self._lock:
            self._timeline.refresh()
            path = self._timeline.path
        items = sorted(
            (item for item in index.items if _counts(item, path)),
            key=lambda item: (item.step, item.number),
        )
        abandoned = len(index.items) - len(items)
        return StoredMedia(id=group_id, index=index, items=items, abandoned=abandoned)

    def content(self, group: StoredMedia, number: int) -> bytes | None:
        """The bytes of an item's file; None if there is none, or it is far too large."""
        name = file_name(number, group.index.kind)
        if name is None or all(item.number != number for item in group.items):
            return None
        try:
            with open_plain(self._run_dir, *FOLDER, group.id, name) as file:
                data = file.read(LARGEST_ITEM_BYTES + 1)
        except OSError:
            return None
        return data if len(data) <= LARGEST_ITEM_BYTES else None

    def _names(self) -> list[str]:
        """Names of the folders of groups."""
        try:
            with open_folder(self._run_dir) as root, open_subfolder(root, FOLDER) as folder:
                names = [each.name for each in islice(os.scandir(folder), MOST_NAMES)]
        except OSError:  # nothing was logged
            return []
        return sorted(name for name in names if GROUP_NAME.fullmatch(name))[:MOST_GROUPS]


def _counts(item: MediaItem, path: TimelinePath | None) -> bool:
    """Whether an item belongs to the present timeline."""
    if path is None:
        return True
    if item.timeline not in path.limits:
        return False
    last = path.limits[item.timeline]
    return last is None or item.step <= last
