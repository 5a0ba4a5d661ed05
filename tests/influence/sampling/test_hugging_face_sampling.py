"""Models of transformers, from a local folder: sampled, scored and studied like our own."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")
# Its progress bars would start a thread that watches them and never ends.
pytest.importorskip("tqdm").tqdm.monitor_interval = 0

from midstep.core.errors import FormatError  # noqa: E402
from midstep.influence.sampling import (  # noqa: E402
    Arithmetic,
    ArithmeticConfig,
    DecodingConfig,
    SampleGenerator,
    load_checkpoint,
)
from midstep.influence.study.plan import BatchRequest, FisherKernelConfig, FisherKernelPlan  # noqa: E402
from midstep.influence.study.runner import FisherKernelRunner  # noqa: E402

ALPHABET = "0123456789+-="


def tokenizer():
    """One token a character, an end token, and no padding token."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    words = {"<end>": 0, "<unknown>": 1} | {one: at + 2 for at, one in enumerate(ALPHABET)}
    made = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<end>", unk_token="<unknown>"
    )


def settings(family: str):
    size = len(ALPHABET) + 2
    if family == "gpt2":
        return transformers.GPT2Config(
            vocab_size=size, n_embd=16, n_layer=2, n_head=2, n_positions=24,
            bos_token_id=0, eos_token_id=0, initializer_range=0.3,
        )  # fmt: skip
    return transformers.LlamaConfig(
        vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=24,
        bos_token_id=0, eos_token_id=0, initializer_range=0.3,
        tie_word_embeddings=family == "llama tied",
    )  # fmt: skip


@pytest.fixture(scope="module", params=["gpt2", "llama tied", "llama"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hf") / "model"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(settings(request.param))
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.01)
    optimizer.step()
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    return folder


def generator(folder: Path, dtype: str | None = None, **decoding) -> SampleGenerator:
    return SampleGenerator.from_checkpoint(
        folder,
        Arithmetic(ArithmeticConfig(largest=12)),
        dtype=dtype,
        decoding=DecodingConfig(**({"max_new_tokens": 8} | decoding)),
    )


def test_tokens_do_not_depend_on_the_micro_batch(checkpoint: Path) -> None:
    batches = [
        generator(checkpoint, microbatch=size).generate_update_batch(4, 2, seed=3)
        for size in (1, 3, 8)
    ]
    tokens = [[one.response_tokens for one in batch] for batch in batches]
    assert tokens[0] == tokens[1] == tokens[2]


def test_generation_and_teacher_forcing_agree(checkpoint: Path) -> None:
    for record in generator(checkpoint).generate_evaluation_batch(6, seed=3):
        assert record.sampler_logprobs == pytest.approx(record.logprobs, abs=1e-4)


def test_scores_are_those_of_the_model_itself(checkpoint: Path) -> None:
    made = generator(checkpoint)
    batch = made.generate_evaluation_batch(4, seed=3)
    for record in batch:
        ids = torch.tensor([[*record.prompt_tokens, *record.response_tokens]])
        with torch.no_grad():
            logs = made.model.module(ids).logits[0].log_softmax(1)
        start = len(record.prompt_tokens) - 1
        direct = [logs[start + k, token].item() for k, token in enumerate(record.response_tokens)]
        assert record.logprobs == pytest.approx(direct, abs=1e-4)


def test_padding_is_the_end_token_where_the_tokenizer_has_none(checkpoint: Path) -> None:
    assert generator(checkpoint).tokenizer.pad_id == 0


def test_folder_without_weights_is_refused_with_the_remedy(tmp_path: Path) -> None:
    settings("gpt2").save_pretrained(tmp_path)
    with pytest.raises(FormatError, match=r"transformers cannot load .* with save_pretrained"):
        load_checkpoint(tmp_path)


def test_a_whole_study_runs(checkpoint: Path, tmp_path: Path) -> None:
    config = FisherKernelConfig(
        checkpoint=os.fspath(checkpoint),
        optimizer_state=os.fspath(checkpoint / "optimizer.pt"),
        prompt_set={"name": "arithmetic", "largest": 12},
        max_new_tokens=6,
        outputs=str(tmp_path),
        dtype="float64",
    )
    params = {
        "batch_size_prompts": 3,
        "completions_per_prompt": 3,
        "advantage_cfg": {"scheme": "reinforce", "baseline": 0.5},
    }
    plan = FisherKernelPlan(
        update=BatchRequest(kind="update", params=params),
        requests=(BatchRequest(kind="evaluation", params={"batch_size_prompts": 3}),),
        validate_rates=(1e-5,),
    )
    results = FisherKernelRunner(config).run(plan)
    assert results.validation["rates"][0]["correlation"] > 0.999
    assert results.validation["rates"][0]["relative_error"] < 0.02


def test_unknown_characters_of_a_hugging_face_tokenizer_are_named() -> None:
    from midstep.influence.sampling.tokenizers import HuggingFaceTokenizer

    made = HuggingFaceTokenizer(tokenizer())
    assert made.unknown_in("1+1=") == ""
    assert made.unknown_in("2×3=6×1é") == "×é"


def test_example_of_a_gsm8k_study_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a model that knows nothing: the reward for the form is what responses differ in."""
    import runpy
    import sys

    from midstep.influence.sampling import gsm8k

    example = Path(__file__).parents[3] / "examples" / "rl" / "gsm8k_study.py"
    monkeypatch.setattr(gsm8k, "TEMPLATE", "{question}")
    monkeypatch.setattr(gsm8k, "_FORM", re.compile(r"[0-9].*"))
    monkeypatch.setattr(gsm8k, "_TAGS", ())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(settings("llama"))
    model.config.max_position_embeddings = 128
    model.save_pretrained(tmp_path / "lm")
    tokenizer().save_pretrained(tmp_path / "lm")
    line = '{"question": "1+1=", "answer": "2 #### 2"}\n'
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(line * 8)
    asked = [
        "--model",
        str(tmp_path / "lm"),
        "--gsm8k",
        str(tmp_path),
        "--out",
        str(tmp_path / "o"),
        "--results",
        str(tmp_path / "influence"),
    ]
    sizes = ["--warm-up", "1", "--new-tokens", "4", "--completions", "6"]
    monkeypatch.setattr(sys, "argv", [str(example), *asked, *sizes])
    runpy.run_path(str(example), run_name="__main__")
    said = capsys.readouterr().out
    assert "η=1e-06" in said
    assert f"midstep serve {tmp_path}," in said
    assert len(list((tmp_path / "influence").glob("*/results.json"))) == 1
