"""What a loop logs beside numbers: what it is taken for, and that the copy is our own."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import torch

import midstep
from midstep.core.errors import ConfigError
from midstep.core.media.encoded_media import BINS, EncodedMedia, encode_media
from midstep.core.media.given_values import (
    MOST_CHARACTERS,
    MOST_ROWS,
    MOST_TILES,
    Unreadable,
    media_of,
    own_value,
)
from midstep.core.media.media_value import MediaValue
from midstep.core.media.pictures import NAN_COLOUR

pil = pytest.importorskip("PIL.Image")


def stored(value: object, name: str = "x") -> EncodedMedia:
    media = own_value(name, value)
    assert type(media) is MediaValue
    return encode_media(media, name)


def pixels(value: object) -> np.ndarray:
    return np.asarray(pil.open(io.BytesIO(stored(value).data)))


PICTURES = {
    "grey": torch.rand(6, 5),
    "one channel": torch.rand(1, 6, 5),
    "channels first": torch.rand(3, 6, 5),
    "channels last": np.random.default_rng(0).random((6, 5, 3)),
    "transparent": torch.rand(4, 6, 5),
    "bytes": torch.randint(0, 256, (3, 6, 5), dtype=torch.uint8),
    "bfloat16": torch.rand(3, 6, 5, dtype=torch.bfloat16),
    "mask": torch.rand(6, 5) > 0.5,
    "with gradient": torch.rand(3, 6, 5, requires_grad=True),
    "pillow": pil.new("RGB", (5, 6), (1, 2, 3)),
    "pillow with palette": pil.new("P", (5, 6), 3),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_form_of_a_picture_is_stored_at_its_own_size(name: str) -> None:
    encoded = stored(PICTURES[name])
    assert encoded.suffix == "png"
    assert pixels(PICTURES[name]).shape[:2] == (6, 5)
    assert (encoded.about["width"], encoded.about["height"]) == (5, 6)


def test_values_from_0_to_1_and_from_minus_1_to_1_keep_their_range() -> None:
    dark = torch.tensor([[0.0, 0.2]])
    assert pixels(dark).tolist() == [[0, 51]]
    assert pixels(dark - 1.0).tolist() == [[0, 25]]  # of a generator with tanh
    assert pixels(dark * 100).tolist() == [[0, 255]]
    about = stored(dark * 100).about
    assert (about["low"], round(about["high"])) == (0, 20)


def test_pixels_that_are_not_finite_cannot_be_missed_and_are_counted() -> None:
    drawn = torch.rand(1, 4, 4)
    drawn[0, 1, 2], drawn[0, 0, 0] = float("nan"), float("inf")
    picture = pixels(drawn)
    assert tuple(picture[1, 2]) == tuple(picture[0, 0]) == NAN_COLOUR
    assert stored(drawn).about["nonfinite"] == 2


def test_a_batch_of_pictures_is_a_sheet_and_says_what_it_leaves_out() -> None:
    about = stored(torch.rand(100, 3, 8, 8)).about
    assert (about["tiles"], about["of"]) == (MOST_TILES, 100)
    assert about["width"] == 8 * 8 + 7 * 2
    sheet = pixels(torch.ones(2, 1, 8, 8))
    assert sheet[0, 0].tolist() == [255, 255]
    assert sheet[0, 8].tolist() == [0, 0], "transparent between two pictures"


def test_a_very_large_picture_is_thinned_and_that_is_said() -> None:
    about = stored(torch.zeros(3, 3000, 3000)).about
    assert about["every"] > 1
    assert about["width"] * about["every"] == pytest.approx(3000, abs=about["every"])


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.0, np.float32(3)],
        (1.0, 2.0, 3.0),
        np.arange(1, 4),
        torch.arange(1.0, 4.0),
        [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)],
    ],
)
def test_a_list_of_numbers_is_a_histogram(values: object) -> None:
    about = stored(values).about
    assert sum(about["counts"]) == about["values"] == 3
    assert (about["low"], about["high"], about["mean"]) == (1.0, 3.0, 2.0)


def test_a_histogram_counts_what_is_not_finite_and_equals_that_of_numpy() -> None:
    values = torch.randn(40, 50)
    values[0, 0] = float("nan")
    about = encode_media(midstep.histogram(values), "h").about
    finite = values[torch.isfinite(values)].double().numpy()
    assert about["counts"] == np.histogram(finite, bins=BINS)[0].tolist()
    assert (about["nonfinite"], about["values"]) == (1, 2000)


def test_tables_of_every_form_have_the_same_cells() -> None:
    pandas = pytest.importorskip("pandas")
    rows = [{"id": 7, "guess": "cat"}, {"id": 9, "guess": "dog"}]
    given = [
        rows,
        pandas.DataFrame([[7, "cat"], [9, "dog"]], columns=["id", "guess"]),
        midstep.table(["id", "guess"], [[torch.tensor(7), "cat"], [np.int64(9), "dog"]]),
    ]
    for one in given:
        assert json.loads(stored(one).data) == {
            "columns": ["id", "guess"],
            "rows": [[7, "cat"], [9, "dog"]],
        }
    assert json.loads(stored(["a", "b"]).data)["rows"] == [["a"], ["b"]]


def test_long_tables_and_texts_are_cut_and_that_is_said() -> None:
    table = stored([{"i": index} for index in range(5000)])
    assert (table.about["rows"], table.about["of"]) == (MOST_ROWS, 5000)
    text = stored("x" * 10**6)
    assert (len(text.data), text.about) == (MOST_CHARACTERS, {"characters": 10**6, "cut": True})


def test_secrets_do_not_reach_the_disk() -> None:
    link = "http://127.0.0.1:8765/#token=abc-_DEF"
    assert b"abc" not in stored(f"open {link} now").data
    assert b"abc" not in stored([{"note": link}]).data
    assert b"sk-1" not in stored("sk-1", "api_key").data
    assert b"sk-1" not in stored([{"api_key": "sk-1"}]).data


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        object(),
        1j,
        torch.zeros(0),
        torch.zeros(5, 7, 9),
        [1, "a"],
        {1: 2},
        torch.zeros(2, 3, 4, 5, 6),
        torch.zeros(3, 4, 4, dtype=torch.complex64),
        torch.zeros(3, 4, 4, device="meta"),
        torch.eye(3).to_sparse(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_passed_on_for_the_facts_to_refuse(value: object) -> None:
    assert media_of(value) is None
    assert own_value("x", value) is value


def test_a_loss_stays_a_number_whatever_is_logged() -> None:
    assert own_value("loss", "abc") == "abc"
    assert own_value("loss", torch.tensor(0.5)) == 0.5


def test_the_copy_keeps_what_was_logged() -> None:
    picture, row = torch.zeros(3, 4, 4), {"id": 1}
    media = [own_value("a", picture), own_value("b", [row]), own_value("c", np.zeros(4))]
    picture.fill_(9)
    row["id"] = 2
    assert encode_media(media[0], "a").about["high"] == 1.0
    assert json.loads(encode_media(media[1], "b").data)["rows"] == [[1]]


def test_a_figure_is_drawn_at_once_and_stays_as_it_was() -> None:
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure(figsize=(2, 1), dpi=50)
    figure.subplots().plot([1, 2])
    canvas = figure.canvas
    about = stored(figure).about
    assert (about["width"], about["height"]) == (100, 50)
    assert figure.canvas is canvas


def test_a_value_that_raises_is_refused_with_its_reason_and_ends_nothing() -> None:
    class Broken(pil.Image):
        mode = "P"

        def convert(self, *_: object) -> None:
            raise OSError("image file is truncated")

    broken = Broken()
    Broken.__module__ = "PIL.Image"
    assert own_value("x", broken) == Unreadable("OSError: image file is truncated")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: midstep.histogram("abc"), "got a str"),
        (lambda: midstep.histogram([]), "got an empty list"),
        (lambda: midstep.table([], []), "at least one column"),
        (lambda: midstep.table(["a"], [[1, 2]]), "1 columns, but a row has 2 cells"),
    ],
)
def test_wrong_arguments_are_named(call: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        call()  # type: ignore[operator]
