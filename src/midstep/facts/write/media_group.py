"""`MediaGroup`: what is kept of all that a run logs under one name, and its folder.

The first item and the last one are always kept, and between them every n-th. n doubles when there
are too many items, or when they take too much space.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from midstep.core.files.storage import make_subfolder, replace_bytes
from midstep.core.files.untrusted_files import FILE_ERRORS
from midstep.core.media.encoded_media import EncodedMedia, encode_media
from midstep.core.media.media_value import MediaKind, MediaValue
from midstep.facts.format.media_files import (
    FILE_NAME,
    FOLDER,
    INDEX,
    MOST_ITEMS,
    MediaIndex,
    MediaItem,
    file_name,
    read_index,
)

MOST_GROUP_BYTES = 32 << 20


@dataclass(slots=True)
class LoggedMedia:
    """One call of `log` with one picture, text, histogram or table."""

    key: str
    value: MediaValue
    step: int
    timeline: int
    at: float
    skipped: int = 0
    """Items of the same group that were dropped before it, because too many waited."""

    @property
    def group(self) -> tuple[MediaKind, str]:
        """What its group is known by."""
        return self.value.kind, self.key


class MediaGroup:
    """The items of one kind under one name. Used by the writing thread alone.

    Args:
        folder: of the group; created with the first item.
        kind: of all its items.
        key: the name under which they are logged.
    """

    def __init__(self, folder: Path, kind: MediaKind, key: str) -> None:
        self.folder, self.kind, self.key = folder, kind, key
        self.items: list[MediaItem] = []
        self.logged, self.stride = 0, 1
        self.is_dirty = False
        """Whether the index on disk is old."""
        self.flushed_at = float("-inf")
        self._pending: tuple[int, LoggedMedia] | None = None
        self._removed: list[str] = []

    @classmethod
    def open(cls, folder: Path, kind: MediaKind, key: str) -> MediaGroup:
        """The group as an earlier attempt of the run left it; files that no index names go."""
        group = cls(folder, kind, key)
        try:
            index = read_index(folder.parents[len(FOLDER)], folder.name)
        except FILE_ERRORS:  # there is none, or it is damaged and is replaced
            return group
        group.items, group.logged, group.stride = list(index.items), index.logged, index.stride
        listed = {file_name(each.number, kind) for each in group.items}
        names = [each.name for each in folder.iterdir()]
        group._removed = [
            name for name in names if FILE_NAME.fullmatch(name) and name not in listed
        ]
        return group

    @property
    def bytes(self) -> int:
        """What its items take on disk."""
        return sum(item.bytes for item in self.items)

    def take(self, logged: LoggedMedia) -> EncodedMedia | None:
        """Take one more item: encoded if it is to be kept now, None if it waits for `flush`."""
        number = self.logged + logged.skipped
        self.logged, self.is_dirty = number + 1, True
        self._pending = (number, logged)
        return encode_media(logged.value, self.key) if number % self.stride == 0 else None

    def encode_pending(self) -> EncodedMedia | None:
        """The newest item, encoded, if it is not kept yet: the last one always is."""
        return None if self._pending is None else encode_media(self._pending[1].value, self.key)

    def drop_pending(self) -> None:
        """Do not keep the newest item."""
        self._pending = None

    def keep(self, encoded: EncodedMedia) -> None:
        """Write the newest item."""
        assert self._pending is not None  # noqa: S101 - it was taken before
        (number, logged), self._pending = self._pending, None
        name = file_name(number, self.kind)
        if name is not None:
            self._make_folder()
            replace_bytes(self.folder / name, encoded.data, durable=False, mode=0o600)
        self._remove_extra_last()
        self.items.append(
            MediaItem(
                number=number,
                step=logged.step,
                timeline=logged.timeline,
                at=logged.at,
                bytes=len(encoded.data),
                about=encoded.about,
            )
        )
        while len(self.items) > MOST_ITEMS:
            self.thin()

    def can_thin(self) -> bool:
        """Whether there is an item between the first and the last one."""
        return len(self.items) > 2

    def thin(self) -> None:
        """Keep every second item, with the first and the last one; fewer remain."""
        before = len(self.items)
        while len(self.items) == before:
            self.stride *= 2
            *others, last = self.items
            kept = [item for item in others if item.number % self.stride == 0]
            self._remove([item for item in others if item.number % self.stride])
            self.items = [*kept, last]
        self.is_dirty = True

    def make_room(self, size: int) -> None:
        """Thin the group until `size` more bytes fit into it; two items always do."""
        while self.bytes + size > MOST_GROUP_BYTES and self.can_thin():
            self.thin()

    def replace_last(self) -> bool:
        """Remove the last item in favour of a newer one; False if there is only the first."""
        if len(self.items) < 2:
            return False
        self._remove([self.items.pop()])
        return True

    def flush(self, now: float) -> None:
        """Write the index, then remove the files that it does not name any more."""
        self._make_folder()
        index = MediaIndex(
            key=self.key,
            kind=self.kind,
            logged=self.logged,
            stride=self.stride,
            items=tuple(self.items),
        )
        replace_bytes(self.folder / INDEX, index.as_bytes(), durable=False, mode=0o600)
        self.is_dirty, self.flushed_at = False, now
        removed, self._removed = self._removed, []
        for name in removed:
            (self.folder / name).unlink(missing_ok=True)

    def _remove_extra_last(self) -> None:
        """A last item that is not an n-th one was kept only until there is a newer one."""
        if self.items and self.items[-1].number % self.stride:
            self._remove([self.items.pop()])

    def _remove(self, items: list[MediaItem]) -> None:
        names = (file_name(item.number, self.kind) for item in items)
        self._removed += [name for name in names if name is not None]

    def _make_folder(self) -> None:
        names = self.folder.parts[-3:]  # below the run directory
        make_subfolder(self.folder.parents[2], *names)
