"""Batches: ids, lookups, provenance, files, and prompts of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError, StorageError
from midstep.influence.sampling import (
    AdvantageConfig,
    CharacterTokenizer,
    HuggingFaceTokenizer,
    RewardConfig,
    SampleGenerator,
    load_batch,
    load_checkpoint,
    save_batch,
    save_checkpoint,
)
from midstep.influence.sampling.sequence_processor import SequenceProcessor, length_buckets
from tests.influence.small_lm import ALPHABET, adamw, small_generator, small_model


def test_update_batch_is_named_by_prompt_and_completion() -> None:
    batch = small_generator().generate_update_batch(3, 2, "train", seed=1)
    assert batch.sequence_ids == tuple(f"U-{p:03d}-{c:02d}" for p in range(3) for c in range(2))
    assert batch.record("U-002-01") is batch.records[5]
    prompts = [record.provenance.global_prompt_id for record in batch]
    assert len(set(prompts)) == 3
    assert [one.sequence_id for one in batch.by_prompt(prompts[2])] == ["U-001-00", "U-001-01"]
    with pytest.raises(ConfigError, match="no sequence 'U-9'"):
        batch.index_of("U-9")


def test_same_seed_same_batch_other_seed_another() -> None:
    one, two, other = (small_generator().generate_update_batch(4, 2, seed=s) for s in (7, 7, 8))
    assert one.records == two.records
    assert [r.response_tokens for r in one] != [r.response_tokens for r in other]


@pytest.mark.parametrize("size", [1, 3, 32])
def test_micro_batches_of_any_size_give_the_same_tokens(size: int) -> None:
    whole = small_generator(microbatch=8).generate_update_batch(4, 3, seed=7)
    parts = small_generator(microbatch=size).generate_update_batch(4, 3, seed=7)
    assert [one.response_tokens for one in parts] == [one.response_tokens for one in whole]


def test_prompt_drawn_twice_gets_another_response() -> None:
    batch = small_generator().generate_evaluation_batch(40, dataset_split="test", seed=0)
    groups = {
        one.provenance.global_prompt_id: batch.by_prompt(one.provenance.global_prompt_id)
        for one in batch
    }
    doubled = [group for group in groups.values() if len(group) > 2]
    assert doubled
    assert any(len({one.response_tokens for one in group}) > 1 for group in doubled)


def test_prompts_by_id_and_by_place_are_the_same() -> None:
    generator = small_generator()
    by_place = generator.generate_from_prompt_ids([4, 0], "train", seed=3)
    ids = [one.provenance.global_prompt_id for one in by_place]
    assert ids[0].startswith("arithmetic-train-00004-")
    assert generator.generate_from_prompt_ids(ids, "train", seed=3).records == by_place.records
    with pytest.raises(ConfigError, match="no prompt 'arithmetic-train-00004-x'"):
        generator.generate_from_prompt_ids(["arithmetic-train-00004-x"])


def test_custom_prompt_gets_the_template_and_is_marked() -> None:
    record = small_generator().generate_from_custom_prompts(["3+4"]).records[0]
    assert record.prompt_text == "3+4="
    assert record.provenance.split == "custom"
    assert (record.reward, record.advantage) == (None, None)


def test_hand_written_pair_is_scored_as_it_stands() -> None:
    model = small_model(torch.float64)
    batch = small_generator(model).build_custom_sequence("3+4=", "7", {"why": "right"}, closed=True)
    record = batch.records[0]
    logs = model(batch.input_ids)[0].log_softmax(1)
    expected = [logs[4, record.response_tokens[0]].item(), logs[5, 2].item()]
    assert record.logprobs == pytest.approx(expected, abs=1e-12)
    entropy = -(logs[4].exp() * logs[4]).sum().item()
    assert record.entropies[0] == pytest.approx(entropy, abs=1e-12)
    assert record.metadata == {"why": "right"}
    assert (record.sequence_id, record.sampler_logprobs) == ("C-000-00", None)


def test_reference_and_given_responses_are_taken() -> None:
    generator = small_generator()
    reference = generator.generate_evaluation_batch(3, seed=1, responses="reference")
    assert [one.reward for one in reference] == [1.1] * 3
    assert all(one.response_tokens[-1] == 2 for one in reference)
    given = generator.generate_from_prompt_ids([0, 1], responses=["12", "7"])
    assert [one.response_text for one in given] == ["12", "7"]
    with pytest.raises(ConfigError, match="one text for each of the 2 prompts"):
        generator.generate_from_prompt_ids([0, 1], responses=["12"])


@pytest.mark.parametrize(
    ("prompt", "response", "word"),
    [("1+1=", "", "is empty"), ("1" * 30, "2", "context is 24; shorten")],
)
def test_sequence_that_cannot_be_scored_is_refused(prompt: str, response: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        small_generator().build_custom_sequence(prompt, response)


def test_unknown_characters_are_refused_in_a_response_and_told_in_a_prompt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    generator = small_generator()
    with pytest.raises(ConfigError, match=r"the response 'fünf'.*does not know"):
        generator.build_custom_sequence("2+3=", "fünf")
    with pytest.raises(ConfigError, match="does not know"):
        generator.generate_from_custom_prompts(["2+3"], responses=["five"])
    assert not caplog.records
    generator.build_custom_sequence("2×3=", "6")
    assert "the prompt '2×3=' has characters that the tokenizer does not know ('×')" in caplog.text


def test_tensors_hold_prompt_response_then_padding() -> None:
    batch = small_generator().generate_update_batch(3, 2, seed=1)
    made = batch.sequence_batch()
    for at, record in enumerate(batch):
        length = len(record.prompt_tokens) + len(record.response_tokens)
        assert tuple(made.input_ids[at][made.response_mask[at]].tolist()) == record.response_tokens
        assert batch.attention_mask[at].sum() == length
        assert made.input_ids[at, : len(record.prompt_tokens)].tolist() == list(
            record.prompt_tokens
        )


def test_batch_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    batch = small_generator().generate_update_batch(3, 2, seed=1)
    back = load_batch(save_batch(batch, tmp_path / "U"), expected=batch.fingerprint)
    assert back.records == batch.records
    assert back.sequence_ids == batch.sequence_ids
    assert back.diagnostics == batch.diagnostics
    assert torch.equal(back.weights, batch.weights)
    with pytest.raises(StorageError, match="something of that name"):
        save_batch(batch, tmp_path / "U")


def test_subset_keeps_names_weights_and_order_through_a_file(tmp_path: Path) -> None:
    batch = small_generator().generate_update_batch(3, 2, seed=1)
    part = batch.clone_with_subset(["U-002-00", "U-000-01"])
    back = load_batch(save_batch(part, tmp_path / "part"))
    assert back.sequence_ids == ("U-002-00", "U-000-01")
    assert back.records == (batch.records[4], batch.records[1])


def test_batch_of_another_checkpoint_is_refused_and_can_be_scored_again(tmp_path: Path) -> None:
    batch = small_generator().generate_update_batch(2, 2, seed=1)
    save_batch(batch, tmp_path / "U")
    other = small_generator(small_model(seed=4))
    with pytest.raises(ConfigError, match="another checkpoint: their weights differ"):
        load_batch(tmp_path / "U", expected=other.fingerprint())
    again = other.rescore(load_batch(tmp_path / "U"))
    assert [one.response_tokens for one in again] == [one.response_tokens for one in batch]
    assert again.fingerprint == other.fingerprint()
    assert again.records[0].logprobs != batch.records[0].logprobs


def test_damaged_batch_is_refused(tmp_path: Path) -> None:
    folder = save_batch(small_generator().generate_update_batch(2, 2), tmp_path / "U")
    file = folder / "tensors.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FormatError, match="is damaged"):
        load_batch(folder)
    with pytest.raises(
        StorageError, match=r"give a folder with batch\.json and tensors\.safetensors"
    ):
        load_batch(tmp_path / "V")


@pytest.mark.parametrize("lost", ["records", "pad_id", "diagnostics", "tensors"])
def test_batch_that_lacks_a_part_is_refused(tmp_path: Path, lost: str) -> None:
    folder = save_batch(small_generator().generate_update_batch(2, 2), tmp_path / "U")
    told = strict_json.loads((folder / "batch.json").read_bytes())
    del told[lost]
    (folder / "batch.json").write_text(strict_json.dumps(told))
    with pytest.raises(FormatError, match=r"not a complete batch|is damaged"):
        load_batch(folder)


def test_nan_advantage_is_refused_with_the_sequence() -> None:
    from dataclasses import replace

    record = small_generator().generate_update_batch(2, 2).records[1]
    with pytest.raises(ConfigError, match="advantage of U-000-01 is nan"):
        replace(record, advantage=float("nan"))


def test_all_zero_advantages_are_told() -> None:
    nothing = RewardConfig(format_weight=0.0, answer_weight=0.0)
    batch = small_generator().generate_update_batch(2, 2, reward_cfg=nothing)
    assert batch.diagnostics["all_advantages_zero"]
    assert not batch.advantages.any()


def test_more_prompts_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match="180 prompts in 'train', 500 were requested"):
        small_generator().generate_update_batch(500, 2)
    with pytest.raises(ConfigError, match="no split 'dev'; the splits are train, test"):
        small_generator().generate_update_batch(2, 2, "dev")


def test_scores_do_not_depend_on_buckets_or_tiles() -> None:
    model = small_model(torch.float64)
    pairs = [([1, 5, 6], [7, 8]), ([1], [9, 9, 9, 2]), ([1, 4, 4, 4, 4], [3])]
    whole = SequenceProcessor(model).score(pairs)
    cut = SequenceProcessor(model, max_tokens=5, tile=1).score(pairs)
    for one, other in zip(whole, cut, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-12)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-12)


def test_buckets_hold_everything_once_within_the_limit() -> None:
    lengths = [5, 1, 9, 3, 3, 2, 30]
    buckets = list(length_buckets(lengths, 12))
    assert sorted(row for bucket in buckets for row in bucket) == list(range(7))
    for bucket in buckets:
        assert len(bucket) == 1 or len(bucket) * max(lengths[row] for row in bucket) <= 12


def test_checkpoint_comes_back_with_the_same_fingerprint(tmp_path: Path) -> None:
    model, tokenizer = small_model(), CharacterTokenizer(ALPHABET)
    save_checkpoint(tmp_path / "step", model, tokenizer, adamw(model))
    again = SampleGenerator.from_checkpoint(tmp_path / "step")
    assert again.fingerprint() == small_generator(model).fingerprint()
    loaded, _ = load_checkpoint(tmp_path / "step", dtype="float64")
    assert {one.dtype for one in loaded.parameters()} == {torch.float64}
    with pytest.raises(ConfigError, match="has no prompt set"):
        again.generate_update_batch(1, 2)


def test_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"config.json"):
        load_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FormatError, match="no 'format' and no 'model_type'"):
        load_checkpoint(tmp_path)


class _NoPadding:
    """What matters of a tokenizer of transformers."""

    pad_token_id = None
    eos_token_id = 2


def test_tokenizer_without_padding_pads_with_its_end_and_without_end_is_refused() -> None:
    tokenizer = _NoPadding()
    assert HuggingFaceTokenizer(tokenizer).pad_id == 2
    tokenizer.eos_token_id = None
    with pytest.raises(ConfigError, match=r"has no end token.*set tokenizer.eos_token"):
        HuggingFaceTokenizer(tokenizer)


def test_scheme_without_group_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match="completions_per_prompt=2 or more, or the scheme"):
        small_generator().generate_update_batch(3, 1)
    reinforce = AdvantageConfig(scheme="reinforce")
    batch = small_generator().generate_update_batch(3, 1, advantage_cfg=reinforce)
    assert torch.equal(batch.advantages, batch.rewards)
