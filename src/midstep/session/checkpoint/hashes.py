"""The hashes of a checkpoint: blake2b of each file, of each tensor, and of the whole.

The manifest holds the hash of `state.json`, of the header of the tensor file and of each tensor,
and ends with the hash of itself. So one number identifies the whole checkpoint, and any flipped bit
is noticed. The hashes detect damage, not forgery: whoever can write the files can write the hashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from midstep.core.errors import FormatError
from midstep.session.checkpoint.checkpoint_folders import STATE, TENSORS

HASH_BYTES = 32
_SEAL = re.compile(rb',"whole":"([0-9a-f]{64})"}\n', flags=re.ASCII)
_BLOCK = re.compile(r"[0-9a-f]{64}", flags=re.ASCII)
_SEAL_BYTES = len(',"whole":""}\n') + 2 * HASH_BYTES


def new_hash() -> hashlib.blake2b:
    """A hash to update chunk by chunk."""
    return hashlib.blake2b(digest_size=HASH_BYTES)


def digest(data: Any) -> str:
    """blake2b with 32 bytes, as hexadecimal digits."""
    return hashlib.blake2b(data, digest_size=HASH_BYTES).hexdigest()


def check_hash(actual: str, expected: str, what: str) -> None:
    """Raise `FormatError` unless both hashes are equal; `what` names the hashed data."""
    if actual != expected:
        raise FormatError(f"{what} does not match its hash")


def describe_files(state: bytes, header: bytes, tensor_file_bytes: int) -> dict[str, Any]:
    """Sizes and hashes of `state.json` and of the tensor file, for the manifest.

    Of the tensor file only the header is hashed here: each tensor has its own hash, so that it is
    checked as it is read, without a second pass over the file.
    """
    return {
        STATE: {"bytes": len(state), "blake2b": digest(state)},
        TENSORS: {"bytes": tensor_file_bytes, "header_blake2b": digest(header)},
    }


def hash_tables(manifest: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The entries of files and of tensors in a manifest, once every hash is known to be there.

    Raises:
        FormatError: an entry or a hash is missing.
    """
    try:
        files, tensors = manifest["files"], manifest["tensors"]
        for entry, field in (
            (files[STATE], "bytes"),
            (files[STATE], "blake2b"),
            (files[TENSORS], "header_blake2b"),
            *((tensor, "blake2b") for tensor in tensors.values()),
        ):
            entry[field]
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"its table of files is incomplete: {error}") from None
    return files, tensors


def block_table(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arrays of a manifest that are stored in blocks; empty for most.

    Raises:
        FormatError: a field is missing, or a number cannot be.
    """
    arrays = manifest.get("blocks", {})
    try:
        for array in arrays.values():
            sizes = array["bytes"], array["block_bytes"]
            if not all(type(size) is int and size > 0 for size in sizes):
                raise FormatError(f"an array has the sizes {sizes}")
            if not all(_BLOCK.fullmatch(name) for name in array["blocks"]):
                raise FormatError("a block is not named by a hash")
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"its table of blocks is incomplete: {error}") from None
    return arrays  # type: ignore[no-any-return]


def seal(document: bytes) -> bytes:
    """A JSON object with the hash of itself as its last field, `whole`.

    >>> unseal(seal(b'{"step":3}'))
    b'{"step":3}'
    """
    body = document.removesuffix(b"}")
    return body + f',"whole":"{digest(body)}"}}\n'.encode()


def unseal(data: bytes) -> bytes:
    """The JSON object inside a sealed one; its hash is checked before anything is parsed.

    Raises:
        FormatError: the hash is missing or does not match.
    """
    body, match = data[:-_SEAL_BYTES], _SEAL.fullmatch(data[-_SEAL_BYTES:])
    if match is None or digest(body) != match[1].decode():
        raise FormatError("it does not match its own hash")
    return body + b"}"
