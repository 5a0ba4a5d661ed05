"""`BlockFolder`: large arrays in blocks, each a file named by its hash, so written only once.

    checkpoints/blocks/<64 hexadecimal digits>

A manifest lists the blocks of its arrays in order. A block that several checkpoints name is there
once. It is removed when no manifest names it. Needs no torch.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.storage import (
    remove_temporaries,
    storage_error,
    storage_errors,
    sync_folder,
    temporary_name,
    write_new_file,
)
from midstep.core.files.untrusted_files import open_plain
from midstep.session.checkpoint.checkpoint_folders import MANIFEST, CheckpointName
from midstep.session.checkpoint.hashes import check_hash, digest, unseal

NAME = "blocks"
MOST_MANIFEST_BYTES = 1 << 28
"""A larger manifest is not read: it would list four million blocks."""
log = logging.getLogger("midstep.session")
_BLOCK = re.compile(r"[0-9a-f]{64}", flags=re.ASCII)
_DAMAGED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class BlockFolder:
    """The blocks of a run directory's checkpoints. One process writes, any may read.

    Args:
        checkpoints: the folder of the checkpoints.

    >>> import tempfile
    >>> blocks = BlockFolder(Path(tempfile.mkdtemp()))
    >>> first, second = blocks.add(memoryview(b"aabb"), 2)
    >>> blocks.add(memoryview(b"aacc"), 2)[0] == first, blocks.remove_unnamed()
    (True, 3)
    """

    def __init__(self, checkpoints: Path) -> None:
        self.folder = checkpoints / NAME
        # A block of an earlier process is compared with its name once, before it is relied on: its
        # damage may be the very reason that the steps which make it again are repeated.
        self._checked: set[str] = set()

    def add(self, data: memoryview, block_bytes: int) -> list[str]:
        """Write what is not there yet; returns the hashes of all blocks, in order.

        Nothing is durable before `sync`.
        """
        if not self.folder.is_dir() or self.folder.is_symlink():
            with storage_errors(self.folder, "create the folder"):
                self.folder.mkdir(0o700)
            sync_folder(self.folder.parent)
        blocks = [data[start : start + block_bytes] for start in range(0, len(data), block_bytes)]
        return [self._add(block) for block in blocks]

    def _add(self, block: memoryview) -> str:
        name = digest(block)
        if not self._is_there(name, len(block)):
            target = self.folder / name
            with storage_errors(target, "write"), temporary_name(target) as temporary:
                write_new_file(temporary, (block,))
                temporary.replace(target)
            self._checked.add(name)
        return name

    def _is_there(self, name: str, size: int) -> bool:
        try:
            if name in self._checked:
                return (self.folder / name).stat(follow_symlinks=False).st_size == size
            self.read_into(name, memoryview(bytearray(size)))
        except (OSError, FormatError):  # missing or damaged: it is written again
            return False
        self._checked.add(name)
        return True

    def sync(self) -> None:
        """Make the names of all blocks durable."""
        sync_folder(self.folder)

    def read_into(self, name: str, target: memoryview) -> None:
        """Read a block whose size is known, and check it against its name.

        Raises:
            FormatError: it is damaged.
            OSError: it is missing, or cannot be read.
        """
        with open_plain(self.folder, name) as file:
            if file.readinto(target) != len(target) or file.read(1):  # type: ignore[attr-defined]
                raise FormatError(f"it does not have {len(target)} bytes")
        check_hash(digest(target), name, "it")

    def read(
        self, array: Mapping[str, Any], allocate: Callable[[], memoryview], folder: Path
    ) -> None:
        """Read all blocks of an array into its memory.

        Args:
            array: what the manifest has of it.
            allocate: makes the memory of the array; called once all blocks have their sizes.
            folder: of the checkpoint that is read; its name is in the errors.

        Raises:
            FormatError: a block is missing or damaged; the newest checkpoint without it is named.
            StorageError: the disk cannot be read.
        """
        size, total = array["block_bytes"], array["bytes"]
        # Counted before they are listed: a damaged manifest may say anything of the size.
        if -(-total // size) != len(array["blocks"]):
            raise FormatError(f"{total} bytes are not {len(array['blocks'])} blocks of {size}")
        starts = {start: min(size, total - start) for start in range(0, total, size)}
        with self._block_errors(folder) as at:
            for at.name, length in zip(array["blocks"], starts.values(), strict=True):
                self._check_size(at.name, length)
            data = allocate()
            for at.name, (start, length) in zip(array["blocks"], starts.items(), strict=True):
                self.read_into(at.name, data[start : start + length])

    def _check_size(self, name: str, length: int) -> None:
        if (self.folder / name).stat(follow_symlinks=False).st_size != length:
            raise FormatError(f"it does not have {length} bytes")

    @contextmanager
    def _block_errors(self, folder: Path) -> Iterator[SimpleNamespace]:
        """Name the block, and the checkpoints with and without it, in every error of the block."""
        at = SimpleNamespace(name="")
        try:
            yield at
        except FormatError as error:
            raise FormatError(self._words(str(error), at.name, folder)) from None
        except OSError as error:
            if error.errno not in _DAMAGED:
                raise storage_error(self.folder / at.name, "read", error) from error
            raise FormatError(self._words("it is missing", at.name, folder)) from None

    def _words(self, problem: str, name: str, folder: Path) -> str:
        """What is wrong with a block, and which checkpoint does not need it."""
        naming = {each.name: blocks for each, blocks in self._manifests()}
        others = [each for each in map(CheckpointName.parse, naming) if each is not None]
        without = [each for each in sorted(others) if name not in naming[each.name]]
        newest = (
            f"the newest checkpoint that does not is {without[-1].name}"
            if without
            else "every checkpoint here needs it"
        )
        with_it = sorted(each.name for each in others if name in naming[each.name])
        also = ", ".join(each for each in with_it if each != folder.name)
        shared = f"checkpoint {also} needs it, too; " if also else ""
        return f"block {NAME}/{name}: {problem}; {shared}{newest}"

    # -- what is no longer named ------------------------------------------------------------------

    def remove_unnamed(self) -> int:
        """Remove the blocks that no manifest names; returns how many. Only the writer may call it.

        A block that stays does no harm, so nothing is raised.
        """
        if not self.folder.is_dir() or self.folder.is_symlink():
            return 0
        try:
            remove_temporaries(self.folder)
            named = self.named()
            names = {entry.name for entry in os.scandir(self.folder)}
            unnamed = [name for name in names - named if _BLOCK.fullmatch(name)]
            for name in unnamed:
                (self.folder / name).unlink()
            if len(unnamed) == len(names):
                self.folder.rmdir()
        except (OSError, StorageError) as error:
            log.warning("blocks that no checkpoint needs were not removed: %s", error)
            return 0
        return len(unnamed)

    def named(self) -> set[str]:
        """The hashes of all blocks that a manifest names."""
        return {name for _, blocks in self._manifests() for name in blocks}

    def _manifests(self) -> Iterator[tuple[Path, set[str]]]:
        """Every folder next to this one with a manifest, and the blocks that it names.

        Also a folder that the user renamed: it is still complete as long as its blocks are there.
        """
        for folder in self.folder.parent.iterdir():
            if folder.name.startswith(".") or folder.is_symlink():
                continue  # being written or removed; its blocks are named by nobody else
            try:
                with open_plain(folder, MANIFEST) as file:
                    if os.fstat(file.fileno()).st_size > MOST_MANIFEST_BYTES:
                        continue
                    data = file.read()
                yield folder, named_blocks(data)
            except FormatError:  # damaged, so never read again
                continue
            except OSError as error:
                if error.errno not in _DAMAGED:
                    raise


def named_blocks(manifest: bytes) -> set[str]:
    """The blocks that a manifest names, whatever its version.

    Raises:
        FormatError: the manifest is damaged.
    """
    try:
        arrays: Iterable[Any] = strict_json.loads(unseal(manifest)).get("blocks", {}).values()
        return {name for array in arrays for name in array["blocks"]}
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError(f"its table of blocks is incomplete: {error}") from None
