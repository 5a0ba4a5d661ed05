"""Models beyond the usual ones: right to first order, or refused with one clear error."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.kernels.fisher import fisher_kernel
from midstep.influence.kernels.true_step import check_learning_rates, error_slope, log_probabilities
from tests.influence.tiny_models import (
    CONTEXT,
    VOCABULARY,
    Twin,
    batch_of,
    relative,
    stepped_optimizer,
    tiny,
)

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("tqdm").tqdm.monitor_interval = 0  # it would leave a thread behind
peft = pytest.importorskip("peft", reason="peft is not installed")

UPDATE, EVALUATION = batch_of(5, 1), batch_of(4, 2)
WEIGHTS = torch.tensor([0.5, -1.0, 0.0, 0.7, 1.3], dtype=torch.float64)
SMALL: dict[str, Any] = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "num_attention_heads": 2}
ENCODER: dict[str, Any] = {
    **SMALL, "hidden_size": 8, "intermediate_size": 12, "max_position_embeddings": CONTEXT
}  # fmt: skip


def gpt2(kind: str = "GPT2LMHeadModel", **settings: Any) -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=8, n_layer=2, n_head=2,
        bos_token_id=0, eos_token_id=0, pad_token_id=0, **settings,
    )  # fmt: skip
    return getattr(transformers, kind)(config).double()


def opt(padding: int | None = None) -> nn.Module:
    config = transformers.OPTConfig(
        **SMALL, hidden_size=8, ffn_dim=12, max_position_embeddings=CONTEXT, word_embed_proj_dim=8,
        pad_token_id=padding, bos_token_id=0, eos_token_id=0, dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(5)  # where a ReLU is near 0, the error of the check is not linear in the rate
    return transformers.OPTForCausalLM(config).double()


def stirred(model: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def adapted(config: Any) -> nn.Module:
    return stirred(peft.get_peft_model(gpt2(), config).double())


def prompt_tuned(kind: str) -> nn.Module:
    return adapted(getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=3))


def dora() -> nn.Module:
    return adapted(
        peft.LoraConfig(
            r=2,
            target_modules=["c_attn"],
            fan_in_fan_out=True,
            use_dora=True,
            task_type="CAUSAL_LM",
        )
    )


def masked() -> nn.Module:
    return stirred(transformers.BertForMaskedLM(transformers.BertConfig(**ENCODER)).double())


class Renamed(nn.Module):
    """A masked language model that no name gives away."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = masked()

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.inner(input_ids).logits


REFUSED = {
    "masked": (masked, "BertForMaskedLM is not a causal language model.*tokens after it"),
    "masked, untrained, half": (
        lambda: transformers.BertForMaskedLM(transformers.BertConfig(**ENCODER)).bfloat16(),
        "not a causal language model",
    ),
    "masked, own class": (Renamed, "Renamed is not a causal language model.*tokens after it"),
    "bert as a decoder without its flag": (
        lambda: stirred(transformers.BertLMHeadModel(transformers.BertConfig(**ENCODER)).double()),
        "not a causal language model.*is_decoder=True",
    ),
    "classifier": (
        lambda: stirred(gpt2("GPT2ForSequenceClassification", num_labels=3)),
        r"GPT2ForSequenceClassification is not .* returns logits \[2, 3\].*Classifiers",
    ),
    "token classifier": (
        lambda: stirred(gpt2("GPT2ForTokenClassification", num_labels=3)),
        "its logits have 3 classes, its vocabulary 23 tokens",
    ),
    "question answering": (lambda: stirred(gpt2("GPT2ForQuestionAnswering")), "without logits"),
    "trunk without head": (lambda: stirred(gpt2("GPT2Model")), "without logits"),
    "encoder and decoder": (
        lambda: stirred(
            transformers.T5ForConditionalGeneration(
                transformers.T5Config(
                    vocab_size=VOCABULARY,
                    d_model=8,
                    d_kv=4,
                    d_ff=12,
                    num_layers=1,
                    num_heads=2,
                    decoder_start_token_id=0,
                )
            ).double()
        ),
        "T5ForConditionalGeneration cannot be called with token ids alone",
    ),
    "prompt tuning": (lambda: prompt_tuned("PromptTuningConfig"), "prompt tuning adds tokens"),
    "p-tuning": (lambda: prompt_tuned("PromptEncoderConfig"), "prompt tuning adds tokens"),
    "DoRA": (dora, "DoRA adapter"),
    "no language model": (lambda: nn.Linear(4, 2).double(), "cannot be called with token ids"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_would_be_wrong_is_refused_with_one_error(name: str) -> None:
    build, message = REFUSED[name]
    model = build()
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        fisher_kernel(model, UPDATE, EVALUATION, preconditioner="sgd", weights=WEIGHTS)
    if name != "DoRA":  # its log-probabilities are right, only its gradients are not
        with pytest.raises(ConfigError):
            log_probabilities(model, EVALUATION)


def test_opt_with_its_positions_by_mask_equals_brute_force() -> None:
    model = stirred(opt())
    optimizer = stepped_optimizer(model)
    twin = Twin(model, optimizer, UPDATE, EVALUATION, WEIGHTS)
    for mode in ("resident", "bounded"):
        block = fisher_kernel(
            model, UPDATE, EVALUATION, optimizer=optimizer, weights=WEIGHTS,
            algorithm="sweep", mode=mode, microbatch=2,
        )  # fmt: skip
        assert relative(block.k_eu, twin.eu) <= 1e-10
        assert relative(block.delta_logpi, twin.delta + twin.beta) <= 1e-10
    assert any("position" in name for name in block.slow_parameters)
    checks = check_learning_rates(
        model, optimizer, UPDATE, WEIGHTS, EVALUATION, rates=[1e-5, 4e-5, 1.6e-4]
    )
    assert error_slope(checks) == pytest.approx(1, abs=0.1)


def test_a_padding_token_that_is_read_as_text_is_refused() -> None:
    read = int(EVALUATION.input_ids[1, 0])
    with pytest.raises(ConfigError, match=rf"sequence \d reads token {read}, the padding token"):
        fisher_kernel(stirred(opt(read)), UPDATE, EVALUATION, preconditioner="sgd", weights=WEIGHTS)


class TwoInputs(nn.Module):
    """A module with a parameter and two inputs, which cannot be run again with one."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return torch.tanh(x * self.gain) + residual


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix = nn.Embedding(VOCABULARY, 6), TwoInputs()
        self.head = nn.Linear(6, VOCABULARY)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        return self.head(self.mix(x.cumsum(1), x))


def test_a_module_with_two_inputs_equals_brute_force() -> None:
    model = stirred(Mixed().double())
    optimizer = stepped_optimizer(model)
    twin = Twin(model, optimizer, UPDATE, EVALUATION, WEIGHTS)
    block = fisher_kernel(model, UPDATE, EVALUATION, optimizer=optimizer, weights=WEIGHTS)
    assert relative(block.k_eu, twin.eu) <= 1e-10
    assert block.slow_parameters == ["mix.gain"]


def test_a_sparse_embedding_is_refused_by_name() -> None:
    model = tiny("odd")
    model.table.sparse = True
    with pytest.raises(ConfigError, match=r"'table.weight' has sparse gradients"):
        fisher_kernel(model, UPDATE, preconditioner="sgd", weights=WEIGHTS)


def test_a_checkpoint_of_a_masked_model_is_refused_when_it_is_loaded(tmp_path) -> None:
    from midstep.influence.sampling.lm_checkpoints import load_checkpoint

    model = stirred(transformers.BertLMHeadModel(transformers.BertConfig(**ENCODER)))
    model.save_pretrained(tmp_path)
    tokenizer = transformers.BertTokenizerFast  # only its files are needed
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqr"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    tokenizer(vocab_file=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="not a causal language model"):
        load_checkpoint(tmp_path)
