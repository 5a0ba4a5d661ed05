"""Arrays of .npy files, which a stranger may have written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from midstep.data.mapped_arrays import map_array


def with_header(path: Path, header: str, data: bytes = b"\0" * 64) -> Path:
    """A .npy file of version 1 with this text as its header."""
    text = header.encode("latin-1").ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
    return path


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.ones((3, 4))),
        np.zeros((0, 3)),
        np.int64(3),
    ],
    ids=["C", "Fortran", "empty", "one number"],
)
def test_an_array_is_mapped_as_it_is(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    with (tmp_path / "a.npy").open("rb") as file:
        assert np.array_equal(map_array(file), array)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2,", "header is damaged"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 2)}", "header is damaged"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 8)}", "header is damaged"),
        (f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**25},)}}", "are missing"),
        (f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**33}, {2**33})}}", "are missing"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (9,)}", "8 bytes of its array"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (7,)}", "8 bytes after its array"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (8,)}", "pickled"),
    ],
)
def test_a_damaged_header_is_a_value_error(tmp_path: Path, header: str, words: str) -> None:
    with (
        with_header(tmp_path / "a.npy", header).open("rb") as file,
        pytest.raises(ValueError, match=words),
    ):
        map_array(file)
