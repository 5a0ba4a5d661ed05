"""`MediaWriter`: writes what a run logs besides numbers, on a thread of its own.

The thread lives only while there is something to write. It is not a daemon: it may read from a
device, and a daemon that does so while the interpreter ends would abort the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from midstep.core.errors import StorageError
from midstep.core.files.untrusted_files import FILE_ERRORS
from midstep.core.media.encoded_media import EncodedMedia
from midstep.core.media.media_value import MediaKind, MediaValue
from midstep.facts.format.media_files import (
    GROUP_NAME,
    LONGEST_KEY,
    MOST_GROUPS,
    group_name,
    media_dir,
    read_index,
)
from midstep.facts.write.media_group import LoggedMedia, MediaGroup

MOST_RUN_BYTES = 256 << 20
MOST_WAITING = 64
MOST_WAITING_BYTES = 128 << 20
FLUSH_EVERY_S = 1.0
"""How often the index of a group is written at most, and with it the newest item."""
TOO_MANY = (
    f"a run keeps media under {MOST_GROUPS} names; log them under fewer, and give the step no part "
    "in the name"
)
TOO_LARGE = f"the media of this run take {MOST_RUN_BYTES >> 20} MiB, which is all it may take"


class MediaWriter:
    """Writes pictures, texts, histograms and tables into `artifacts/media` of a run directory.

    Args:
        run_dir: the run directory.
        refuse: called with a name and a reason when something is not recorded; from any thread.
    """

    def __init__(self, run_dir: str | Path, refuse: Callable[[str, str], object]) -> None:
        self._run_dir, self._folder, self._refuse = run_dir, media_dir(run_dir), refuse
        self._changed = threading.Condition()
        self._waiting: list[LoggedMedia] = []
        self._skipped: dict[tuple[MediaKind, str], int] = {}
        self._thread: threading.Thread | None = None
        self._is_closing = False
        # Of the thread alone.
        self._groups: dict[str, MediaGroup] | None = None
        self._fault: str | None = None
        self._has_refused_names = False

    def put(self, step: int, timeline: int, name: str, value: MediaValue) -> None:
        """Write `value`, which was logged in this step under this name. Returns at once."""
        key = name[:LONGEST_KEY].encode("utf-8", "replace").decode()
        logged = LoggedMedia(key, value, step, timeline, time.time())
        with self._changed:
            if self._is_closing:
                return
            logged.skipped = self._skipped.pop(logged.group, 0)
            if self._is_full() and not self._thin_waiting(logged):
                self._skipped[logged.group] = logged.skipped + 1
                return
            self._waiting.append(logged)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="midstep-media")
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Write everything that waits, and end the thread. Idempotent."""
        with self._changed:
            self._is_closing, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _is_full(self) -> bool:
        waiting_bytes = sum(each.value.bytes for each in self._waiting)
        return len(self._waiting) >= MOST_WAITING or waiting_bytes >= MOST_WAITING_BYTES

    def _thin_waiting(self, newest: LoggedMedia) -> bool:
        """Drop every second item of the same group that waits, but not the first of them."""
        same = [each for each in self._waiting if each.group == newest.group]
        dropped = same[1::2]
        followers = [*same[2::2], newest]
        for each, follower in zip(dropped, followers, strict=False):
            follower.skipped += each.skipped + 1
        gone = set(map(id, dropped))
        self._waiting = [each for each in self._waiting if id(each) not in gone]
        return bool(dropped)

    # -- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            batch, is_over = self._next_batch()
            if is_over:
                return
            for logged in batch:
                self._guarded(logged.key, partial(self._take, logged))
            for group in list((self._groups or {}).values()):
                if group.is_dirty and (self._is_closing or time.monotonic() >= self._due(group)):
                    self._guarded(group.key, partial(self._flush, group))

    def _next_batch(self) -> tuple[list[LoggedMedia], bool]:
        """What waits, or nothing if an index is due; and whether the thread is to end."""
        with self._changed:
            while not self._waiting:
                dirty = [each for each in (self._groups or {}).values() if each.is_dirty]
                if not dirty:
                    self._thread = None
                    return [], True
                left_s = min(map(self._due, dirty)) - time.monotonic()
                if self._is_closing or left_s <= 0:
                    break
                self._changed.wait(left_s)
            batch, self._waiting = self._waiting, []
            return batch, False

    @staticmethod
    def _due(group: MediaGroup) -> float:
        return group.flushed_at + FLUSH_EVERY_S

    def _guarded(self, key: str, write: Callable[[], object]) -> None:
        """Call `write`; an error is reported once, and the training continues."""
        if self._fault is not None:
            self._refuse(key, self._fault)
            return
        try:
            write()
        except (StorageError, OSError) as error:
            self._fault = f"media cannot be written: {error}"
            self._groups = {}
            self._refuse(key, self._fault)
        except Exception as error:  # noqa: BLE001
            # An odd array or a fault of ours: nothing of the training depends on it.
            self._refuse(key, f"{type(error).__name__}: {error}"[:300])

    def _take(self, logged: LoggedMedia) -> None:
        group = self._group_of(logged)
        if group is None:
            if not self._has_refused_names:  # once: a loop may use a new name in every step
                self._refuse(logged.key, TOO_MANY)
            self._has_refused_names = True
            return
        try:
            encoded = group.take(logged)
        except Exception:
            group.drop_pending()
            raise
        if encoded is not None:
            self._keep(group, encoded)

    def _flush(self, group: MediaGroup) -> None:
        try:
            encoded = group.encode_pending()
        except Exception:
            group.drop_pending()
            raise
        if encoded is not None:
            self._keep(group, encoded)
        group.flush(time.monotonic())

    def _keep(self, group: MediaGroup, encoded: EncodedMedia) -> None:
        size = len(encoded.data)
        group.make_room(size)
        if self._make_room(group, size):
            group.keep(encoded)
        else:
            group.drop_pending()
            self._refuse(group.key, TOO_LARGE)

    def _make_room(self, newest: MediaGroup, size: int) -> bool:
        """Thin groups, the largest first, until `size` more bytes fit into the run."""
        groups = list((self._groups or {}).values())
        while sum(each.bytes for each in groups) + size > MOST_RUN_BYTES:
            thinnable = [each for each in groups if each.can_thin()]
            if thinnable:
                max(thinnable, key=lambda each: each.bytes).thin()
            elif not newest.replace_last():
                return False
        return True

    def _group_of(self, logged: LoggedMedia) -> MediaGroup | None:
        """The group of an item; None if there are too many groups."""
        if self._groups is None:
            self._groups = self._open_groups()
        name = group_name(logged.value.kind, logged.key)
        group = self._groups.get(name)
        if group is None and len(self._groups) < MOST_GROUPS:
            group = MediaGroup.open(self._folder / name, logged.value.kind, logged.key)
            self._groups[name] = group
        return group

    def _open_groups(self) -> dict[str, MediaGroup]:
        """The groups of earlier attempts of the run."""
        groups: dict[str, MediaGroup] = {}
        try:
            names = sorted(each.name for each in self._folder.iterdir())
        except OSError:  # there is no folder yet
            return groups
        for name in [each for each in names if GROUP_NAME.fullmatch(each)][:MOST_GROUPS]:
            try:
                index = read_index(self._run_dir, name)
            except FILE_ERRORS:  # damaged, and replaced as soon as something is logged there
                continue
            groups[name] = MediaGroup.open(self._folder / name, index.kind, index.key)
        return groups
