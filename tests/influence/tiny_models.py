"""Tiny models of every family, and the slow, obvious way to each number."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from midstep.influence.gradients.sequences import SequenceBatch

VOCABULARY = 23
CONTEXT = 16
FAMILIES = ("gpt2", "llama_tied", "llama_untied", "lora", "own_rotary", "own_learned", "odd")
EXACT = ("gpt2", "own_rotary", "own_learned", "odd")


def tolerance(family: str) -> float:
    """Hugging Face's Llama norms drop to float32 inside; everything else is float64 throughout."""
    return 1e-10 if family in EXACT else 1e-5


class Odd(nn.Module):
    """What no handler knows: plain parameters, a head without its module, a fused scale."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 6)
        self.shift = nn.Parameter(torch.randn(CONTEXT, 6))
        self.mix = nn.Linear(6, 6)
        self.scale = Scale(6)
        self.idle = nn.Parameter(torch.ones(3))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids) + self.shift[: input_ids.shape[1]]
        x = x + torch.tanh(self.mix(x)).cumsum(1) / 4
        x = x + self.mix(x)  # a module used twice
        return self.scale(x) @ self.table.weight.T


class Scale(nn.Module):
    """A matrix and a vector in one module of its own kind."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width) + 0.1 * torch.randn(width, width))
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x @ self.weight) * self.gain


def tiny(family: str) -> nn.Module:
    """A float64 model of a family, weights large enough that nothing is linear."""
    torch.manual_seed(3)
    if family == "odd":
        return Odd().double()
    if family.startswith("own"):
        return _own(family)
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    if family in {"gpt2", "lora"}:
        config = transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=8, n_layer=2, n_head=2,
            bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=8, intermediate_size=12, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=CONTEXT,
            tie_word_embeddings=family == "llama_tied", bos_token_id=0, eos_token_id=0,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config)
    if family == "lora":
        model = _with_lora(model)
    return _stirred(model.double())


def _own(family: str) -> nn.Module:
    from midstep.models.causal_lm import CausalLM, CausalLMConfig

    learned = family == "own_learned"
    config = CausalLMConfig(
        vocab_size=VOCABULARY, width=8, layers=2, heads=4, kv_heads=2, context=CONTEXT,
        positions="learned" if learned else "rotary", norm="layer" if learned else "rms",
        tied=not learned, bias=learned,
    )  # fmt: skip
    return _stirred(CausalLM(config).double())


def _with_lora(model: nn.Module) -> nn.Module:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    config = peft.LoraConfig(
        r=2, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(model, config)


def _stirred(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def batch_of(count: int, seed: int = 0, width: int = 10) -> SequenceBatch:
    """Sequences of several lengths, padded on the right."""
    stream = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCABULARY, (count, width), generator=stream)
    response, attention = torch.zeros_like(ids), torch.zeros_like(ids)
    for row in range(count):
        length = int(torch.randint(4, width + 1, (), generator=stream))
        begin = int(torch.randint(1, length - 1, (), generator=stream))
        attention[row, :length] = 1
        response[row, begin:length] = 1
    return SequenceBatch(ids, response, attention)


def log_pi(model: nn.Module, batch: SequenceBatch, row: int) -> Tensor:
    """log π of one sequence, alone and without padding."""
    start, length = int(batch.starts[row]), int(batch.lengths[row])
    ids = batch.input_ids[row : row + 1, start : start + length]
    out = model(ids)
    logits = out if isinstance(out, torch.Tensor) else out.logits
    logp = logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
    return (logp * batch.response_mask[row, start + 1 : start + length]).sum()


def gradients(model: nn.Module, batch: SequenceBatch) -> dict[str, Tensor]:
    """[N, numel] gradients by a backward pass a sequence."""
    model.eval()
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    rows = []
    for row in range(len(batch)):
        made = torch.autograd.grad(
            log_pi(model, batch, row), list(trained.values()), allow_unused=True
        )
        rows.append(
            [
                torch.zeros_like(p) if g is None else g
                for p, g in zip(trained.values(), made, strict=True)
            ]
        )
    return {name: torch.stack([row[i].flatten() for row in rows]) for i, name in enumerate(trained)}


@dataclass
class Twin:
    """The definitions of the contract, written down one by one."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    update: SequenceBatch
    evaluation: SequenceBatch
    weights: Tensor
    clip: float = 1.0
    kind: str = "adam_post"

    def __post_init__(self) -> None:
        g_u, g_e = gradients(self.model, self.update), gradients(self.model, self.evaluation)
        self.uu = torch.zeros(len(self.update), len(self.update), dtype=torch.float64)
        self.eu = torch.zeros(len(self.evaluation), len(self.update), dtype=torch.float64)
        self.delta = torch.zeros(len(self.evaluation), dtype=torch.float64)
        self.beta = torch.zeros(len(self.evaluation), dtype=torch.float64)
        named = dict(self.model.named_parameters())
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                name = next(n for n, p in named.items() if p is parameter)
                self._add(name, parameter, group, g_u[name].double(), g_e[name].double())

    def _add(self, name, parameter, group, g_u, g_e) -> None:
        state = self.optimizer.state[parameter]
        beta1, beta2 = group["betas"]
        t = int(state["step"]) + 1
        v, m = state["exp_avg_sq"].flatten(), state["exp_avg"].flatten()
        total = -(self.weights @ g_u)
        if self.kind == "adam_post":
            after = beta2 * v + (1 - beta2) * (self.clip * total) ** 2
            d = 1 / ((after / (1 - beta2**t)).sqrt() + group["eps"])
        elif self.kind == "adam_state":
            d = 1 / ((v / (1 - beta2 ** (t - 1))).sqrt() + group["eps"])
        else:
            d = torch.ones_like(v)
        self.uu += g_u * d @ g_u.T
        self.eu += g_e * d @ g_u.T
        eta = group["lr"]
        self.delta += (
            eta * (1 - beta1) / (1 - beta1**t) * self.clip * (g_e * d @ g_u.T) @ self.weights
        )
        theta = parameter.detach().flatten()
        drift = -beta1 / (1 - beta1**t) * d * m - group["weight_decay"] * theta
        self.beta += eta * (g_e @ drift)


def stepped_optimizer(
    model: nn.Module, *, lr: float = 1e-3, decay: float = 0.1, steps: int = 3, betas=(0.9, 0.99)
) -> torch.optim.AdamW:
    """An AdamW with decayed and other parameters in groups of their own, after a few steps."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for p in trained if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ],
        lr=lr, betas=betas, eps=1e-6,
    )  # fmt: skip
    batch = batch_of(4, seed=99)
    for _ in range(steps):
        optimizer.zero_grad()
        (-sum(log_pi(model, batch, row) for row in range(4)) / 4).backward()
        for p in trained:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        optimizer.step()
    optimizer.zero_grad()
    return optimizer


def copy_of(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model)


def relative(found: Tensor, true: Tensor) -> float:
    """Largest difference over the largest true value."""
    return float((found.double() - true.double()).abs().max() / true.double().abs().max())
