from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
import torch

from midstep.control import CapturedBatch
from midstep.control.samples.find_parts import find_parts
from midstep.core.png import encode_png
from midstep.server.step_views.batch_json import describe_samples
from midstep.server.step_views.step_schemas import BatchOut


def captured(batch, **rest):
    return CapturedBatch(step=3, batch=batch, loss=0.5, **rest)


def decode(png: bytes) -> np.ndarray:
    """A reader for exactly what we write: eight bits, no filter or "up", no interlace."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, header = 8, b"", None
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            name + data
        )
        header = struct.unpack(">IIBBBBB", data) if name == b"IHDR" else header
        body += data if name == b"IDAT" else b""
        at += 12 + length
    width, height, _, colour, *_ = header
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    rows, above = [], np.zeros(width * channels, np.uint8)
    for line in lines:
        assert line[0] in (0, 2)
        above = line[1:] + (above if line[0] == 2 else np.uint8(0))
        rows.append(above)
    return np.stack(rows).reshape(height, width, channels)


def describe_batch(batch, *, count=512):
    """What a reader of the whole batch gets, with its picture."""
    return describe_samples(batch.samples(0, count), inline=True)


def sheet(out):
    return decode(base64.b64decode(out["png"]))


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_holds_the_pixels_it_was_given(channels, filtered):
    pixels = np.arange(5 * 7 * channels, dtype=np.uint8).reshape(5, 7, channels)
    assert np.array_equal(decode(encode_png(pixels, filtered=filtered)), pixels)
    turned = pixels.transpose(1, 0, 2)
    assert np.array_equal(decode(encode_png(turned, filtered=filtered)), turned)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((5, 1, 8, 6), "images"),
        ((5, 3, 8, 6), "images"),
        ((5, 8, 6), "images"),
        ((5, 64), "images"),
        ((5, 784), "images"),
        ((5, 49), "vectors"),
        ((5, 65), "vectors"),
        ((5,), "other"),
        ((), "other"),
        ((5, 2, 3, 4, 5), "frames"),
        ((0, 64), "other"),
    ],
)
def test_kind_follows_from_the_shape(shape, kind):
    out = describe_batch(captured(torch.rand(shape)))
    assert out["kind"] == kind
    BatchOut.model_validate(out)


def test_whole_numbers_in_rows_are_tokens():
    out = describe_batch(captured({"input_ids": torch.arange(128).reshape(2, 64)}))
    assert out["kind"] == "tokens"
    assert out["rows"][0][:3] == [0, 1, 2]


def test_each_tile_lies_where_the_geometry_says():
    batch = torch.stack([torch.full((64,), i / 20) for i in range(20)])
    out = describe_batch(captured(batch))
    grid, picture = out["grid"], sheet(out)
    for i in range(20):
        top = (i // grid["columns"]) * grid["tile_height"]
        left = (i % grid["columns"]) * grid["tile_width"]
        tile = picture[top : top + 8, left : left + 8]
        assert (abs(tile.astype(float) - i / 20 * 255) < 1).all()


def test_value_range_is_natural_where_there_is_one():
    assert describe_batch(captured(torch.rand(4, 64)))["grid"]["high"] == 1.0
    assert (
        describe_batch(captured(torch.full((4, 8, 8), 7, dtype=torch.uint8)))["grid"]["high"]
        == 255.0
    )
    signed = describe_batch(captured(torch.linspace(-3, 2, 128).reshape(2, 64)))["grid"]
    assert (signed["low"], signed["high"]) == (-3.0, 2.0)


def test_non_finite_and_extreme_pixels_are_drawn():
    batch = torch.zeros(1, 64)
    batch[0, :4] = torch.tensor([float("nan"), float("inf"), float("-inf"), 3e38])
    batch[0, 4] = -3e38
    picture = sheet(describe_batch(captured(batch)))
    assert picture[0, :5, 0].tolist() == [0, 255, 0, 255, 0]
    assert picture[0, :5, 1].tolist() == [0, 0, 0, 255, 255]  # alpha 0: not finite


def test_at_most_512_samples_are_shown():
    out = describe_batch(captured(torch.rand(600, 64), losses=torch.rand(600)))
    assert (out["count"], out["shown"], len(out["losses"])) == (600, 512, 512)


def test_large_images_are_thinned_to_a_bounded_sheet():
    out = describe_batch(captured(torch.rand(64, 3, 512, 512)))
    assert sheet(out).size <= 3 * 4_200_000
    assert out["shape"] == [64, 3, 512, 512]


def test_input_is_found_in_mappings_and_sequences():
    x, y = torch.rand(4, 64), torch.arange(4)
    assert find_parts((y, [x])).tensor is x
    assert find_parts({"label": y, "pixels": x}).tensor is x
    assert find_parts({"nothing": "here"}).tensor is None


def test_labels_losses_and_ids_travel_with_the_batch():
    out = describe_batch(
        captured(
            torch.rand(2, 64, dtype=torch.bfloat16),
            labels=("cat", "dog"),
            losses=torch.tensor([0.5, float("nan")]),
            sample_ids=torch.tensor([7, 9]),
        )
    )
    assert out["labels"] == ["cat", "dog"]
    assert out["losses"] == [0.5, "NaN"]
    assert out["sample_ids"] == [7, 9]


def test_labels_of_another_form_are_left_out():
    out = describe_batch(captured(torch.rand(2, 64), labels=torch.rand(2, 10), losses=[0.1]))
    assert out["labels"] is None
    assert out["losses"] is None


@pytest.mark.parametrize("batch", ["text", None, 7, [], {}, torch.empty(3, device="meta")])
def test_odd_batches_are_told_without_a_picture(batch):
    out = describe_batch(captured(batch))
    assert out["kind"] == "other"
    BatchOut.model_validate(out)


def test_a_batch_that_holds_itself_many_times_is_walked_once():
    batch: list = [torch.zeros(2, 3)]
    batch += [batch] * 300  # 300⁴ ways down
    assert find_parts(batch).tensor is batch[0]
