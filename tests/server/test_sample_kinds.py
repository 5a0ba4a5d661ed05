"""The samples of every kind as a page gets them: bounded, and true to the batch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import midstep
from midstep.control import CapturedBatch
from midstep.control.capture.subscriptions import Need
from midstep.control.samples.layout import KINDS
from midstep.server.responses import json_bytes
from midstep.server.step_views.batch_json import describe_sample, describe_samples
from midstep.server.step_views.samples import kinds
from midstep.server.step_views.samples.tiles import classes_of, mask_of
from midstep.server.step_views.step_schemas import BatchOut, SampleOut

B = 4
NAN = float("nan")


def captured(batch: Any, view: Any = None, **rest: Any) -> CapturedBatch:
    return CapturedBatch(step=3, batch=batch, loss=0.5, view=view, **rest)


def shown(batch: Any, view: Any = None, **rest: Any) -> dict[str, Any]:
    """What a page reads of all samples; it must fit its schema."""
    out = describe_samples(captured(batch, view, **rest).samples(0, 512), inline=True)
    BatchOut.model_validate(json.loads(json_bytes(out)))
    return out


def sample(batch: Any, index: int = 0, view: Any = None, **rest: Any) -> dict[str, Any]:
    out = describe_sample(captured(batch, view, **rest), index)
    SampleOut.model_validate(json.loads(json_bytes(out)))
    return out


class Words:
    """A tokenizer whose tokens are the letters after a."""

    pad_token_id = 0

    def decode(self, ids: list[int]) -> str:
        return " ".join("abcdefghijklmnop"[each] for each in ids)


LETTERS = midstep.view(Words())


def test_every_kind_has_an_entry() -> None:
    assert set(kinds.KINDS) == set(KINDS)


# -- texts and tokens -----------------------------------------------------------------------------


def test_tokens_are_shown_as_text_without_their_padding() -> None:
    ids = torch.tensor([[3, 4, 0, 5, 0, 0], [0, 0, 1, 2, 3, 4]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    by_mask = {"input_ids": ids, "attention_mask": mask}
    for batch in (ids, by_mask):  # the padding token inside a sample means something
        assert shown(batch, LETTERS)["texts"] == ["d e a f", "b c d e"]
    out = sample(by_mask, 0, LETTERS)
    assert (out["text"], out["tokens"]) == ("d e a f", [3, 4, 0, 5])
    assert out["pieces"] == ["d", " e", " a", " f"]
    assert shown(ids)["rows"] == ids.tolist()


def test_a_tokenizer_of_hugging_face_is_a_view_as_it_is() -> None:
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {"[PAD]": 0, "[UNK]": 1, "the": 2, "loss": 3, "falls": 4}
    tokens = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens, pad_token="[PAD]", unk_token="[UNK]"
    )
    batch = tokenizer(["the loss falls", "the loss"], padding=True, return_tensors="pt")
    view = midstep.view(text=tokenizer)
    assert shown(batch, view)["texts"] == ["the loss falls", "the loss"]
    out = sample(batch, 1, view)
    assert (out["text"], out["tokens"]) == ("the loss", [2, 3])


def test_targets_that_are_tokens_are_shown_as_text_unless_they_repeat_the_input() -> None:
    ids = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    answer = torch.tensor([[-100, -100, 3, 4], [-100, -100, -100, 8]])
    assert shown({"input_ids": ids, "labels": answer}, LETTERS)["labels"] == ["d e", "i"]
    assert shown({"input_ids": ids, "labels": ids}, LETTERS)["labels"] is None
    assert shown((ids[:, :-1], ids[:, 1:]), LETTERS)["labels"] is None


@pytest.mark.parametrize("shift", [0, 1])
def test_predicted_tokens_are_shown_where_the_target_counts(shift: int) -> None:
    """The model shifts labels itself (1), or the loader gave the next tokens as targets (0)."""
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    target = torch.tensor([[-100, -100, -100, 4, 5]]) if shift else torch.tensor([[2, -1, 4, 5, 6]])
    predicted = torch.tensor([[9, 10, 11, 12, 13]])
    columns = {"predictions": predicted, "prediction_kind": "tokens"}
    batch = {"input_ids": ids, "labels": target}
    out = shown(batch, LETTERS, results=columns)
    assert out["predictions"] == (["l m"] if shift else ["j l m n"])


def test_a_text_function_that_raises_leaves_the_tokens_and_says_why() -> None:
    out = shown(torch.tensor([[99, 1]]), LETTERS)
    assert (out["texts"], out["rows"]) == (None, [[99, 1]])
    assert out["note"].startswith("view(text=…) raised IndexError")


def test_a_long_text_is_cut_in_the_list_and_whole_in_its_sample() -> None:
    text = "word " * 5_000
    out = shown([text] * 64)
    assert len(out["texts"][0]) < 1_000
    assert out["texts"][0].endswith("…")
    assert sample([text] * 64, 3)["text"] == text


def test_only_the_samples_that_are_read_are_decoded() -> None:
    calls: list[list[int]] = []

    def text(ids: list[int]) -> str:
        calls.append(ids)
        return str(ids)

    controller = midstep.DebugController(view=text)
    calls.clear()
    viewer = controller.captures.viewer(Need(kind="batch", count=8))
    batch = {"input_ids": torch.arange(64 * 5).reshape(64, 5)}
    for _ in range(3):
        controller.capture_batch(batch, 0.5)
        controller.wait_if_paused()
    assert calls == []  # captured, and not read
    describe_samples(controller.captures.recent[0].samples(2, 3))
    assert calls == batch["input_ids"][2:5].tolist()
    viewer.close()


# -- targets, predictions, names ------------------------------------------------------------------


def test_class_names_stand_for_targets_and_predictions() -> None:
    view = midstep.view(class_names=["cat", "dog"])
    out = shown((torch.rand(B, 3), torch.tensor([0, 1, 1, 2])), view)
    assert out["labels"] == ["cat", "dog", "dog", 2]
    marks = torch.tensor([[1, 0], [1, 1], [0, 0], [0, 1]])
    assert shown((torch.rand(B, 3), marks), view)["labels"] == ["cat", "cat, dog", "none", "dog"]


def test_the_target_of_the_view_goes_before_labels_of_the_loop() -> None:
    batch = {"x": torch.rand(B, 3), "price": torch.arange(B), "y": torch.zeros(B)}
    assert shown(batch, midstep.view(target="price"), labels=[9] * B)["labels"] == [0, 1, 2, 3]
    assert shown(batch, labels=[9] * B)["labels"] == [9] * B
    assert shown(batch)["labels"] == [0.0] * B


def test_a_target_of_several_numbers_has_a_column_for_each() -> None:
    out = shown((torch.rand(2, 3), torch.tensor([[0.5, NAN], [1.5, 2.0]])))
    assert out["columns"] == [
        {"name": "target 0", "role": "target", "cells": [0.5, 1.5]},
        {"name": "target 1", "role": "target", "cells": ["NaN", 2.0]},
    ]
    assert (out["labels"], out["nonfinite_in"]) == (None, [1, 0])


def test_a_sample_in_full_has_the_prediction_of_its_step() -> None:
    columns = {
        "losses": torch.tensor([0.5, 2.0]),
        "predictions": torch.tensor([1, 0]),
        "probabilities": torch.tensor([0.75, 0.5]),
        "prediction_kind": "class",
    }
    view = midstep.view(class_names=["cat", "dog"])
    batch = captured((torch.rand(2, 3), torch.tensor([0, 0])), view, results=lambda *_: columns)
    out = describe_sample(batch.copy("1").arrived(), 0)
    assert (out["label"], out["prediction"], out["probability"]) == ("cat", "dog", 0.75)
    assert out["loss"] == 0.5


# -- tables ---------------------------------------------------------------------------------------


def test_a_table_has_the_columns_of_its_batch_or_those_of_the_view() -> None:
    batch = {"age": torch.tensor([30.0, NAN]), "city": ["Graz", "Linz"], "y": torch.tensor([1, 0])}
    out = shown(batch)
    assert [(each["name"], each["cells"]) for each in out["columns"]] == [
        ("age", [30.0, "NaN"]),
        ("city", ["Graz", "Linz"]),
    ]
    assert (out["kind"], out["labels"], out["nonfinite_in"]) == ("table", [1, 0], [0, 1])
    named = shown((torch.eye(2), [1, 0]), midstep.view(columns=["width", "height"]))
    assert [each["name"] for each in named["columns"]] == ["width", "height"]


def test_a_leaf_of_several_values_is_one_column() -> None:
    batch = {"obs": {"pos": torch.arange(20.0).reshape(2, 10)}, "done": torch.tensor([True, False])}
    out = shown(batch)
    assert [each["cells"] for each in out["columns"]] == [
        ["0, 1, 2, 3, 4, 5, 6, 7, 8, 9", "10, 11, 12, 13, 14, 15, 16, 17, 18, 19"],
        [True, False],
    ]
    long = {"a": torch.arange(60.0).reshape(2, 30), "b": torch.zeros(2, 2)}
    assert shown(long)["columns"][0]["cells"][0].endswith(", 13, …")
    assert sample(long)["columns"][0]["cells"][0].endswith("28, 29")


# -- pictures -------------------------------------------------------------------------------------


def test_a_mask_travels_as_the_class_of_each_pixel() -> None:
    masks = torch.tensor([0, 1, 7, -100]).reshape(4, 1, 1).expand(4, 200, 200).clone()
    batch = captured((torch.rand(4, 3, 200, 200), masks), midstep.view(class_names={7: "tree"}))
    out = describe_samples(batch.samples(0, 4))
    assert out["kind"] == "image_mask"
    assert out["mask"]["layers"] == ["mask"]
    assert [(each["id"], each["name"]) for each in out["mask"]["classes"]] == [
        (0, "0"),
        (1, "1"),
        (7, "tree"),
        (255, "ignored"),
    ]
    classes = mask_of(batch.samples(1, 2), "mask")
    assert classes.shape == (2, 67, 67)  # as the tiles of the images
    assert [int(each.max()) for each in classes] == [1, 7]


@pytest.mark.parametrize(
    ("mask", "classes"),
    [
        (np.array([0, 255], np.uint8), [0, 1]),
        (np.array([0, 1, 255], np.uint8), [0, 1, 255]),
        (np.array([True, False]), [1, 0]),
        (np.array([0.0, 0.4, 0.6]), [0, 0, 1]),
        (np.array([3.0, NAN]), [3, 255]),
        (np.array([0, 256, 70_000]), [0, 2, 150]),
    ],
)
def test_every_mask_becomes_bytes(mask: Any, classes: list[int]) -> None:
    assert classes_of(mask).tolist() == classes


def test_an_image_to_reconstruct_is_no_mask_and_zeros_and_ones_are() -> None:
    images = torch.rand(2, 3, 8, 8)
    assert shown((images, torch.rand(2, 1, 8, 8)))["kind"] == "images"
    assert shown((images, (torch.rand(2, 1, 8, 8) > 0.5).float()))["kind"] == "image_mask"


def test_images_are_drawn_as_they_were_before_they_were_normalized() -> None:
    original = torch.rand(2, 3, 8, 8)
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
    shape = (3, 1, 1)
    normalized = (original - torch.tensor(mean).view(shape)) / torch.tensor(std).view(shape)
    plain = shown(original)
    restored = shown(normalized, midstep.view(denormalize=(mean, std)))
    assert restored["grid"] == plain["grid"]
    assert (restored["grid"]["low"], restored["grid"]["high"]) == (0.0, 1.0)


def test_a_broken_pixel_that_the_tile_leaves_out_is_seen_where_the_whole_batch_is_held() -> None:
    images = torch.rand(3, 1, 200, 200)
    images[1, 0, 100, 100] = NAN  # a tile has every third pixel
    out = shown(images)
    assert (out["nonfinite"], out["nonfinite_in"]) == (1, [0, 1, 0])


def test_images_of_different_sizes_lie_side_by_side() -> None:
    out = shown((tuple(torch.rand(3, 40 + k, 60) for k in range(3)), [{}, {}, {}]))
    grid = out["grid"]
    assert (out["kind"], grid["tile_height"], grid["tile_width"]) == ("images", 42, 60)
    assert sample((tuple(torch.rand(3, 40 + k, 60) for k in range(3)), [{}] * 3), 1)["height"] == 41


def test_a_sequence_shows_its_first_image_and_its_sample_all_of_them() -> None:
    video = torch.zeros(2, 5, 3, 16, 24)
    video[:, 4] = 1.0
    out = shown((video, torch.tensor([0, 1])))
    assert (out["kind"], out["frames"]) == ("frames", {"count": 5, "word": "frame"})
    assert out["grid"]["tile_width"] == 24
    grid = sample((video, torch.tensor([0, 1])))["grid"]
    assert (grid["columns"], grid["tile_width"], grid["tile_height"]) == (5, 24, 16)


# -- curves ---------------------------------------------------------------------------------------


def test_curves_have_the_smallest_and_largest_value_of_each_interval() -> None:
    values = torch.sin(torch.arange(16_000) / 5).expand(2, 1, 16_000).clone()
    values[1, 0, 8_000] = NAN
    out = shown((values, torch.tensor([0, 1])), midstep.view(sample_rate=8_000))
    lines = out["lines"]
    assert (out["kind"], out["sample_rate"], lines["length"]) == ("audio", 8_000.0, 16_000)
    assert min(lines["low"][0]) < -0.99 < 0.99 < max(lines["high"][0])
    assert lines["low"][1].count("NaN") == 1
    assert out["nonfinite_in"] == [0, 1]
    assert sample((values, torch.tensor([0, 1])))["lines"]["points"] == 1_000


def test_a_short_series_is_shown_value_by_value() -> None:
    out = shown(torch.arange(2 * 40 * 3.0).reshape(2, 40, 3))
    lines = out["lines"]
    assert (out["kind"], lines["channels"], lines["points"]) == ("series", 3, 40)
    assert lines["low"][0][:3] == lines["high"][0][:3] == [0.0, 3.0, 6.0]


def test_what_is_never_below_zero_is_no_sound() -> None:
    assert shown(torch.rand(2, 5_000))["kind"] == "series"
    assert shown({"audio": torch.rand(2, 5_000)})["kind"] == "audio"


# -- all kinds ------------------------------------------------------------------------------------

LARGE = {
    "text": ["ä" * 5_000] * 512,
    "tokens": torch.randint(0, 16, (512, 900)),
    "table": {f"column {k}": torch.rand(512) for k in range(60)},
    "nested": {f"leaf {k}": {"x": torch.rand(512, 50)} for k in range(60)},
    "vectors": torch.rand(512, 999),
    "audio": torch.randn(512, 2, 4_000),
    "series": torch.randn(512, 16, 300),
    "image_mask": (torch.rand(512, 3, 32, 32), torch.randint(0, 200, (512, 32, 32))),
}


@pytest.mark.parametrize("kind", LARGE)
def test_the_answer_stays_below_300_kb(kind: str) -> None:
    out = describe_samples(captured(LARGE[kind], LETTERS).samples(0, 512))
    assert out["kind"] == kind
    assert len(json_bytes(out)) < 300_000


@pytest.mark.parametrize("kind", LARGE)
def test_a_page_that_asks_beyond_the_last_sample_gets_none(kind: str) -> None:
    batch = captured(LARGE[kind], LETTERS)
    for none in (batch.samples(600, 8), batch.copy_samples([(600, 608)], "1").samples(600, 8)):
        out = describe_samples(none)
        assert (out["shown"], out["count"]) == (0, 512)


@pytest.mark.parametrize("kind", LARGE)
def test_a_slice_of_a_running_step_reads_as_the_same_samples_of_the_whole_batch(kind: str) -> None:
    batch = captured(LARGE[kind], LETTERS)
    sliced = batch.copy_samples([(8, 40)], "1").samples(16, 4)
    ignored = {"etag", "note"}
    whole = describe_samples(batch.samples(16, 4))
    part = describe_samples(sliced)
    assert {k: v for k, v in whole.items() if k not in ignored} == {
        k: v for k, v in part.items() if k not in ignored
    }
