"""`view`: what it accepts, what it refuses, and when its function is called."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import midstep
from midstep.control.samples.view_check import checked_view
from midstep.core.errors import ConfigError


class Tokenizer:
    """What a Hugging Face tokenizer has, as far as it is used."""

    pad_token_id = 0

    def __init__(self) -> None:
        self.decoded: list[list[int]] = []

    def __call__(self, text: str) -> None:
        raise AssertionError("a tokenizer is not called")

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        assert not skip_special_tokens
        self.decoded.append(ids)
        return " ".join(f"w{each}" for each in ids)


def test_a_tokenizer_is_accepted_as_it_is_and_so_is_its_method() -> None:
    tokenizer = Tokenizer()
    for given in (
        tokenizer,
        tokenizer.decode,
        midstep.view(tokenizer),
        midstep.view(text=tokenizer),
    ):
        view = checked_view(given)
        assert view is not None
        assert view.decode([3, 4]) == "w3 w4"
        assert view.pad_id == 0


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no function": (lambda: midstep.view(text="abc"), "must be a tokenizer, or a function"),
    "both": (lambda: midstep.view(Tokenizer(), text=Tokenizer()), "give one of them"),
    "input": (lambda: midstep.view(input=1.5), r"view\(input=…\) must be a key or a position"),
    "kind": (lambda: midstep.view(kind="hologram"), "known kinds: images, image_mask"),
    "denormalize": (lambda: midstep.view(denormalize=0.5), r"must be \(mean, std\)"),
    "std of 0": (lambda: midstep.view(denormalize=(0.0, [1.0, 0.0])), "no std of 0"),
    "class_names": (lambda: midstep.view(class_names="cat"), "must be a list of names"),
    "class numbers": (lambda: midstep.view(class_names={"a": "cat"}), "whole numbers"),
    "columns": (lambda: midstep.view(columns="age"), "must be a list of names"),
    "sample_rate": (lambda: midstep.view(sample_rate=0), "must be a number of hertz"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_with_the_reason(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(ConfigError, match=words):
        make()


def test_class_names_may_come_by_number() -> None:
    assert midstep.view(class_names={1: "road", "2": "car"}).class_names == {1: "road", 2: "car"}


def drawing(draw: Callable[[], Any]) -> Callable[[list[int]], str]:
    def text(ids: list[int]) -> str:
        draw()
        return "text"

    return text


@pytest.mark.parametrize(
    ("source", "draw"),
    [
        ("torch", lambda: torch.rand(1)),
        ("numpy", lambda: np.random.rand(1)),
        ("random", lambda: random.gauss(0, 1)),
    ],
)
def test_a_function_that_draws_random_numbers_is_refused_and_changes_nothing(
    source: str, draw: Callable[[], Any]
) -> None:
    before = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    with pytest.raises(ConfigError, match=f"drew random numbers from {source}"):
        midstep.DebugController(view=drawing(draw))
    after = (torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate())
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_a_function_that_fails_or_gives_no_text_is_refused_before_the_first_step() -> None:
    with pytest.raises(ConfigError, match=r"raised AttributeError.*must accept a list of integers"):
        checked_view(lambda tensor: tensor.tolist())
    with pytest.raises(ConfigError, match="returned list; it must return the text of one sample"):
        checked_view(lambda ids: [str(each) for each in ids])


def test_a_vocabulary_without_the_first_token_is_accepted() -> None:
    names = {1: "a", 2: "b"}
    assert checked_view(lambda ids: "".join(names[each] for each in ids)) is not None


def test_nothing_is_decoded_for_samples_that_nobody_looks_at() -> None:
    tokenizer = Tokenizer()
    controller = midstep.DebugController(view=tokenizer)
    tokenizer.decoded.clear()
    batch = {"input_ids": torch.arange(64 * 5).reshape(64, 5) + 1}
    for _ in range(3):
        controller.capture_batch(batch, 0.5)
        controller.wait_if_paused()
    assert tokenizer.decoded == []
