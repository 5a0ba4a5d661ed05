"""Any state goes to JSON and safetensors and comes back the same; what could not is refused."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import FormatError
from midstep.session.checkpoint import tagged_json
from midstep.session.checkpoint.hashes import digest
from midstep.session.checkpoint.state_packing import Packed, pack, unpack
from midstep.session.checkpoint.tensor_file import TensorWriter, read_tensors
from midstep.session.state.shared_storage import clone_all, clone_tree, find_blocks
from midstep.session.state.state_tree import MAX_DEPTH, UnsavableError
from tests.session.same import assert_same, bits

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e8m0fnu,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.int8,
    torch.int64,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
]


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Random bits of a type; true booleans."""
    draw = torch.Generator().manual_seed(seed)
    high = 2 if dtype is torch.bool else 256
    data = torch.randint(0, high, (math.prod(shape) * dtype.itemsize,), generator=draw)
    return data.to(torch.uint8).view(dtype).reshape(shape)


tensors = st.builds(
    tensor_of,
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 4), max_size=3).map(tuple),
    st.integers(0, 99),
)
any_text = st.text(st.characters(), max_size=6)
odd_floats = st.sampled_from(
    [0.0, -0.0, math.inf, -math.inf, math.nan, struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")[0]]
)
scalars = st.sampled_from(
    [
        np.float32(0.1),
        np.float64("nan"),
        np.int64(-3),
        np.uint8(3),
        np.bool_(True),
        np.complex64(1j),
        np.str_("aß"),
        np.str_(""),
        np.bytes_(b"a\0"),
        np.datetime64("2026-01-02"),
        np.float16("-inf"),
    ]
)
keys = st.one_of(
    any_text,
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.binary(max_size=3),
    st.tuples(st.integers(), any_text),
)
arrays = st.sampled_from(
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 3)),
        np.arange(12.0).reshape(3, 4).T,
        np.array(["a", "bcd"]),
        np.array([b"", b"x"]),
        np.array([], dtype="U"),
        np.array([True, False]),
    ]
)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    odd_floats,
    any_text,
    st.binary(max_size=9),
    scalars,
    arrays,
    tensors,
    st.lists(st.integers(0, 5), max_size=3).map(torch.Size),
    st.sampled_from(DTYPES),
    st.sampled_from([range(2, 9, 3), torch.device("cuda:1")]),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.builds(deque, st.lists(inner, max_size=4), st.sampled_from([None, 3, 9])),
        st.builds(
            defaultdict,
            st.sampled_from([None, int, list, set]),
            st.dictionaries(keys, inner, max_size=4),
        ),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(OrderedDict),
        st.dictionaries(st.sampled_from(["!tuple", "!", "a"]), inner),
        st.dictionaries(keys, st.integers(), max_size=4).map(Counter),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
    ),
    max_leaves=15,
)


def through_file(packed: Packed, folder: Path) -> dict[str, torch.Tensor]:
    """The tensors, written and read."""
    writer = TensorWriter(packed.tensors)
    path = folder / "tensors.safetensors"
    path.write_bytes(b"".join(bytes(chunk) for chunk in writer.chunks()))
    assert path.stat().st_size == writer.bytes
    with path.open("rb") as file:
        return read_tensors(file, digest(writer.header), writer.entries)


@settings(max_examples=200, deadline=None)
@given(tree=trees)
def test_any_tree_comes_back_the_same(tree, tmp_path_factory) -> None:
    packed = pack(tree)
    json.loads(packed.text, parse_constant=lambda name: pytest.fail(f"{name} is not strict"))
    packed.text.encode()
    back = unpack(packed.text, through_file(packed, tmp_path_factory.getbasetemp()))
    assert_same(back, tree)


@settings(max_examples=100, deadline=None)
@given(tree=trees)
def test_a_clone_is_the_same(tree) -> None:
    assert_same(clone_tree(tree), tree)


def test_other_readers_open_the_tensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    tree = {f"t{index}": tensor_of(dtype, (3, 2), index) for index, dtype in enumerate(DTYPES)}
    packed = pack(tree)
    through_file(packed, tmp_path)
    found = load_file(tmp_path / "tensors.safetensors")
    assert found.keys() == tree.keys()
    for name, value in tree.items():
        assert bits(found[name]) == bits(value)


# -- sharing ---------------------------------------------------------------------------------------


def base() -> torch.Tensor:
    return torch.arange(24.0).reshape(4, 6)


SHARED = {
    "tied": lambda b: [b, b],
    "tied by another object": lambda b: [b, b.view(4, 6)],
    "transposed": lambda b: [b, b.t()],
    "transposed alone": lambda b: [b.t()],
    "row": lambda b: [b, b[1]],
    "overlapping rows": lambda b: [b[0:3], b[2:4]],
    "interleaved columns": lambda b: [b[:, ::2], b[:, 1::2]],
    "expanded": lambda b: [b[:, :1].expand(4, 9), b],
    "expanded alone": lambda b: [b[0].expand(5, 6)],
    "scalar expanded": lambda b: [b[1, 1].expand(3, 3)],
    "windows": lambda b: [b.reshape(-1).unfold(0, 5, 1)],
    "gaps": lambda b: [b[:, 1:3]],
    "channels last": lambda b: [b.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)],
    "two types": lambda b: [b, b.view(torch.int32)[2], b.view(torch.uint8)[0, 3:7]],
    "complex parts": lambda b: [torch.view_as_complex(b.reshape(4, 3, 2)), b],
    "conjugated": lambda b: [torch.view_as_complex(b.reshape(4, 3, 2)).conj()],
    "negated": lambda b: [torch.view_as_complex(b.reshape(4, 3, 2)).conj().imag],
    "nothing": lambda b: [b[:0], b[:, :0], torch.empty(0)],
    "single numbers": lambda b: [b[0, 0], b[3, 5], torch.tensor(1)],
    "far apart": lambda b: [b[0], b[3]],
    "broadcast and transposed": lambda b: [b.t()[:, None].expand(6, 3, 4)],
}
APART = {"conjugated", "negated"}
"""Their bits are computed, so they are copies of their own."""


@pytest.mark.parametrize("case", SHARED)
def test_tensors_that_share_memory_come_back_equal_and_sharing(case: str, tmp_path: Path) -> None:
    given_ = SHARED[case](base())
    packed = pack(given_)
    read = unpack(packed.text, through_file(packed, tmp_path))
    for back in (read, clone_tree(given_), clone_all(given_)):
        assert_same(back, given_)
        for copy, tensor in zip(back, given_, strict=True):
            assert copy.untyped_storage().data_ptr() != base().untyped_storage().data_ptr()
            if case not in APART | {"gaps"} and tensor.numel():
                assert copy.stride() == tensor.stride()


@pytest.mark.parametrize("case", sorted(set(SHARED) - APART - {"nothing"}))
def test_a_write_to_one_shows_in_those_that_overlap_it(case: str) -> None:
    given_ = SHARED[case](base())
    copies = clone_all(given_)
    whole = given_[-1] if given_[-1].numel() == 24 else given_[0]
    at = next(index for index, tensor in enumerate(given_) if tensor is whole)
    if any(step == 0 for step in whole.stride()) or case == "windows":
        return  # torch itself refuses to write to these
    whole.zero_()
    copies[at].zero_()
    assert_same(copies, given_)


def test_shared_memory_is_stored_once_and_a_slice_without_the_rest(tmp_path: Path) -> None:
    weight = torch.zeros(1000, 100)
    tied = pack({"embedding": weight, "head": weight, "transposed": weight.t()})
    assert [t.numel() for t in tied.tensors.values()] == [100_000]
    assert [t.numel() for t in pack({"row": weight[7]}).tensors.values()] == [100]
    assert [t.numel() for t in pack({"x": weight[0].expand(1000, 100)}).tensors.values()] == [100]
    assert len(find_blocks([weight[0], weight[1]])) == 2
    assert sum(t.numel() for t in pack([weight[:, :2]]).tensors.values()) == 2000


def test_names_that_look_alike_are_told_apart() -> None:
    tree = {"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}, 1: torch.ones(2), "1": torch.ones(3)}
    tree["__metadata__"] = torch.ones(4)
    packed = pack(tree)
    assert len(packed.tensors) == 5
    assert_same(unpack(packed.text, packed.tensors), tree)


def test_a_model_keeps_the_versions_of_its_modules() -> None:
    state = torch.nn.Sequential(torch.nn.BatchNorm1d(3)).state_dict()
    packed = pack(state)
    back = unpack(packed.text, packed.tensors)
    assert back._metadata["0"] == {"version": 2}
    assert clone_tree(state)._metadata == state._metadata


# -- refusals --------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")
loop: list = []
loop.append(loop)
deep: list = []
for _ in range(MAX_DEPTH + 1):
    deep = [deep]


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (Thing(), r"a\.0 is a .*Thing.*state_dict"),
        (lambda: 0, r"a\.0 is a .*leave code out"),
        (Pair(1, 2), r"plain one with tuple"),
        (defaultdict(lambda: 0), r"a defaultdict of .*dict\("),
        (np.zeros(1, object), r"NumPy value of type object"),
        (np.array([(1, 2.0)], dtype="i4,f4"), r"NumPy value"),
        (np.ma.array([1]), r"numpy\.asarray"),
        (np.longdouble(1), r"float64"),
        (torch.zeros(2, 2).to_sparse(), r"layout torch.sparse_coo.*to_dense"),
        (torch.empty(2, device="meta"), r"without data"),
        (torch.nn.parameter.UninitializedParameter(), r"one batch through the model"),
        ({Thing(): 1}, r"a\.0\.key .*numbers or strings as keys"),
        ({(1, Thing())}, r"a key of type Thing"),
        (loop, r"inside itself"),
        (deep, r"deeper than 100"),
        (1j, r"a builtins\.complex"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_path_and_a_remedy(value, says: str) -> None:
    for keep in (pack, clone_tree, tagged_json.dumps):
        with pytest.raises(UnsavableError, match=says):
            keep({"a": [value]})


def test_a_parameter_is_kept_as_its_values() -> None:
    packed = pack([torch.nn.Parameter(torch.ones(2))])
    [back] = unpack(packed.text, packed.tensors)
    assert_same(back, torch.ones(2))
    assert not clone_tree([torch.ones(2, requires_grad=True)])[0].requires_grad


@pytest.mark.parametrize(
    "text",
    [
        '{"!pickle":"gASV"}',
        '{"!tuple":3}',
        '{"!int":[]}',
        '{"!float":"zz"}',
        '{"!bytes":"%"}',
        '{"!dtype":"nn"}',
        '{"!scalar":["O","00"]}',
        '{"!scalar":["<f4","00"]}',
        '{"!set":[[]]}',
        '{"!dict":[[1]]}',
        '{"!size":["a"]}',
        '{"!tensor":"absent"}',
        '{"!tensor":["t"]}',
        '{"!tensor":"t","dtype":"complex128"}',
        '{"!tensor":"t","shape":[9],"stride":[1],"offset":0}',
        '{"!tensor":"t","shape":[2],"stride":[1],"offset":-1}',
        '{"!tensor":"t","shape":[2],"stride":[1,1],"offset":0}',
        '{"!tensor":"t","shape":["a"],"stride":[1],"offset":0}',
        '{"!tensor":"t","shape":[2]}',
        '{"!array":"t","dtype":"O","shape":[1]}',
        '{"!array":"t","dtype":"<f4","shape":[1000000000000]}',
        "[" * 100_000,
        "[" * 700 + "]" * 700,
    ],
)
def test_a_malformed_document_is_a_format_error(text: str) -> None:
    if text.endswith("]" * 700):
        text = text.replace("[", '{"!tuple":[').replace("]", "]}")
    with pytest.raises(FormatError):
        unpack(text, {"t": torch.zeros(3)})
