"""What a batch holds is found as its author meant it; what is not sure is shown as less."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import midstep
from midstep.control.samples.find_parts import find_parts

B = 6
r = torch.rand


def whole(*shape: int) -> torch.Tensor:
    return torch.randint(0, 9, shape)


class Pair(NamedTuple):
    waveform: torch.Tensor
    label: torch.Tensor


AS_USERS_WRITE_THEM: dict[str, tuple[Any, str, str, str]] = {
    # name: (batch, kind, target, what the target is)
    "hugging face": (
        {"attention_mask": r(B, 20), "input_ids": whole(B, 20), "labels": whole(B)},
        "tokens",
        "labels",
        "value",
    ),
    "causal lm": ({"input_ids": whole(B, 9), "labels": whole(B, 9)}, "tokens", "labels", "tokens"),
    "nano lm": ((whole(B, 32), whole(B, 32)), "tokens", "1", "tokens"),
    "segmentation": ((r(B, 3, 64, 48), whole(B, 64, 48)), "image_mask", "1", "mask"),
    "segmentation dict": (
        {"image": r(B, 3, 64, 64), "mask": whole(B, 1, 64, 64), "file": ["a.png"] * B},
        "image_mask",
        "mask",
        "mask",
    ),
    "binary masks of floats": ((r(B, 3, 64, 64), r(B, 1, 64, 64)), "images", "1", "maybe_mask"),
    "autoencoder of bytes": (
        (np.zeros((B, 8, 8), np.uint8), np.zeros((B, 8, 8), np.uint8)),
        "images",
        "",
        "none",
    ),
    "waveform": ((r(B, 1, 16000), whole(B)), "audio", "1", "value"),
    "flat waveform": ((r(B, 4000), whole(B)), "audio", "1", "value"),
    "named tuple": (Pair(r(B, 900), whole(B)), "audio", "label", "value"),
    "ecg": ((r(B, 12, 5000), whole(B)), "series", "1", "value"),
    "forecast": ({"past_values": r(B, 96, 7), "future_values": r(B, 24, 7)}, "series", "", "none"),
    "table of columns": (
        {"age": r(B), "rooms": whole(B), "city": ["Graz"] * B, "target": r(B)},
        "table",
        "target",
        "value",
    ),
    "mapping and target": (({"age": r(B), "n": whole(B, 1)}, r(B, 1)), "table", "1", "value"),
    "regression": ((r(B, 13), r(B, 1)), "vectors", "1", "value"),
    "several targets": ((r(B, 13), r(B, 3)), "vectors", "1", "values"),
    "ratings": ((whole(B), whole(B), r(B)), "table", "2", "value"),
    "mixed features": (({"x_num": r(B, 9), "x_cat": whole(B, 3)}, r(B)), "nested", "1", "value"),
    "nested": ({"obs": {"pos": r(B, 3), "vel": r(B, 3)}, "action": whole(B)}, "nested", "", "none"),
    "strings": (["good film", "bad film"] * 3, "text", "", "none"),
    "strings and labels": ((["good", "bad"] * 3, whole(B)), "text", "1", "value"),
    "questions": ({"question": ["q"] * B, "answer": ["a"] * B}, "text", "answer", "value"),
    "text beside tokens": ({"input_ids": whole(B, 9), "text": ["t"] * B}, "text", "", "none"),
    "samples that are not collated": ([{"text": "t", "label": 1}] * B, "text", "label", "value"),
    "video": ((r(B, 5, 3, 32, 32), whole(B)), "frames", "1", "value"),
    "video, channels first": ((r(B, 3, 5, 32, 32), whole(B)), "frames", "1", "value"),
    "stacked frames of a game": (r(B, 4, 84, 84), "frames", "", "none"),
    "channels last": (np.zeros((B, 32, 32, 3), np.uint8), "images", "", "none"),
    "caption": ((r(B, 3, 32, 32), ["a cat"] * B), "images", "1", "value"),
    "detection": (
        (tuple(r(3, 40 + k, 50) for k in range(B)), tuple({"boxes": r(2, 4)} for _ in range(B))),
        "images",
        "",
        "none",
    ),
    "weights are no input": ({"weights": r(B, 8), "x": whole(B, 5)}, "tokens", "", "none"),
}  # fmt: skip


@pytest.mark.parametrize("name", AS_USERS_WRITE_THEM)
def test_a_batch_is_understood_as_users_write_it(name: str) -> None:
    batch, kind, target, target_kind = AS_USERS_WRITE_THEM[name]
    parts = find_parts(batch)
    described = parts.description
    assert (parts.layout.kind, described.target_name, described.target_kind) == (
        kind,
        target,
        target_kind,
    )
    assert parts.layout.count == B
    slices = parts.cut(1, 3)
    for part in (slices.values, slices.texts, slices.mask, slices.target, *slices.columns):
        assert part is None or len(part) == 2


def test_input_ids_are_shown_and_not_the_attention_mask() -> None:
    batch = AS_USERS_WRITE_THEM["hugging face"][0]
    parts = find_parts(batch)
    assert parts.tensor is batch["input_ids"]
    assert parts.attention is batch["attention_mask"]


def test_columns_have_the_names_of_their_leaves() -> None:
    def names(name: str) -> tuple[str, ...]:
        return find_parts(AS_USERS_WRITE_THEM[name][0]).description.columns

    assert names("table of columns") == ("age", "rooms", "city")
    assert names("nested") == ("obs.pos", "obs.vel", "action")
    assert names("mixed features") == ("x_num", "x_cat")
    assert names("segmentation dict") == ("file",)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (r(B, 3, 8, 8).half(), "images"),
        (r(B, 100).bfloat16(), "images"),
        (r(B, 10).bfloat16(), "vectors"),
        (r(B, 16) > 0.5, "vectors"),
        (whole(B, 8, 8).bool(), "images"),
        (whole(B, 7).short(), "tokens"),
        (np.zeros((B, 784), np.uint8), "images"),
    ],
)
def test_numbers_of_any_type_are_shown(values: Any, kind: str) -> None:
    assert find_parts(values).layout.kind == kind


class Refusing:
    """Has what a tensor has, and refuses everything."""

    shape, dtype = property(lambda self: 1 / 0), "float32"

    def reshape(self) -> None:
        raise RuntimeError


@pytest.mark.parametrize(
    "batch",
    [
        None,
        7,
        "text",
        object(),
        [],
        {},
        [[]],
        torch.empty(0, 3, 8, 8),
        torch.empty(3, 0),
        torch.empty(3, 8, 8, device="meta"),
        torch.eye(4).to_sparse(),
        torch.zeros(3, 4, dtype=torch.complex64),
        np.array([object()] * 3),
        Refusing(),
        {"x": Refusing()},
        [{"a": 1}, {"b": object()}],
        {"deep": {"er": {"and": {"further": {"down": r(B, 3)}}}}},
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_other_and_never_an_error(batch: Any) -> None:
    parts = find_parts(batch)
    assert parts.layout.kind == "other"
    parts.cut(0, 0)


def test_a_batch_that_holds_itself_many_times_is_walked_once() -> None:
    batch: list[Any] = [torch.zeros(2, 3)]
    batch += [batch] * 300  # 300⁴ ways down
    assert find_parts(batch).tensor is batch[0]


# -- what the view says ---------------------------------------------------------------------------


def test_the_view_names_input_and_target_by_key_path_or_position() -> None:
    batch = {"a": r(B, 3, 8, 8), "b": {"c": r(B, 3, 8, 8)}, "d": whole(B)}
    parts = find_parts(batch, midstep.view(input="b.c", target="d"))
    assert parts.tensor is batch["b"]["c"]
    assert parts.target is batch["d"]
    pair = (r(B, 5), r(B, 8))
    assert find_parts(pair, midstep.view(input=1)).tensor is pair[1]


def test_words_for_kinds_stand_in_where_the_batch_has_no_such_key() -> None:
    pair = (r(B, 3, 8, 8), r(B, 8, 8))
    parts = find_parts(pair, midstep.view(input="image", target="mask"))
    assert parts.description.target_kind == "mask"  # for sure: 0.5 is a threshold then
    assert find_parts(r(B, 64), midstep.view(kind="series")).layout.kind == "series"
    assert find_parts(r(B, 64), midstep.view(columns=["a", "b"])).layout.kind == "table"


def test_a_part_that_the_batch_does_not_have_is_named_in_a_note() -> None:
    note = find_parts({"x": r(B, 3)}, midstep.view(input="images_a")).description.note
    assert note == "view(input='images_a') names no part of this batch, which has: x"


def test_columns_of_a_mapping_are_chosen_by_name() -> None:
    batch = AS_USERS_WRITE_THEM["table of columns"][0]
    parts = find_parts(batch, midstep.view(columns=["city", "age"]))
    assert set(parts.description.columns) == {"age", "city"}
    assert parts.description.target_name == "target"
