"""Refuse models whose log-probabilities or gradients the kernels would get wrong.

A kernel needs logits for every token that depend on earlier tokens alone. That is tested by running
the model, once for each model, not read from its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import torch
from torch import nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.model_parts import without_adapters

if TYPE_CHECKING:
    from torch import Tensor

    from midstep.influence.gradients.sequences import SequenceBatch

# Weak: the set must not keep a large model alive.
_checked: WeakSet[nn.Module] = WeakSet()


@torch.no_grad()
def check_causal_lm(model: nn.Module, probe_ids: Tensor, trained: Mapping[int, str]) -> None:
    """Raise an error unless the model is a causal language model with plain, dense gradients.

    Args:
        model: in evaluation mode.
        probe_ids: two short sequences of token ids.
        trained: names of the parameters that count, by identity.

    >>> class NextToken(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.table = nn.Embedding(5, 5)
    ...     def forward(self, ids):
    ...         return self.table(ids)
    >>> check_causal_lm(NextToken(), torch.tensor([[1, 2, 3]]), {})
    >>> class Bag(NextToken):
    ...     def forward(self, ids):
    ...         return self.table(ids) + self.table(ids).mean(1, keepdim=True)
    >>> check_causal_lm(Bag(), torch.tensor([[1, 2, 3]]), {})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    midstep.core.errors.ConfigError: Bag is not a causal language model: its logits for a token ...
    """
    _check_modules(model, trained)
    if model in _checked:
        return
    name = type(model).__name__
    logits = _logits(model, probe_ids, name)
    if logits.dim() != 3 or logits.shape[:2] != probe_ids.shape:
        raise ConfigError(
            f"{name} is not a causal language model: for token ids {list(probe_ids.shape)} it "
            f"returns logits {list(logits.shape)}, expected [{len(probe_ids)}, "
            f"{probe_ids.shape[1]}, vocabulary], one row for each token. Classifiers have no "
            "log-probability of a token; prompt tuning adds tokens of its own, use LoRA instead"
        )
    vocabulary = _vocabulary(model, logits)
    if logits.shape[2] < vocabulary:
        raise ConfigError(
            f"{name} is not a causal language model: its logits have {logits.shape[2]} classes, "
            f"its vocabulary {vocabulary} tokens"
        )
    _check_causal(model, probe_ids, logits, vocabulary, name)
    _checked.add(model)


def check_padding_token(model: nn.Module, trained: Mapping[int, str], batch: SequenceBatch) -> None:
    """Raise an error when the padding token of a trained embedding is read as a real token.

    `nn.Embedding(padding_idx=…)` drops the gradient of that row, so the gradient of such a sequence
    is not the derivative of its log-probability.
    """
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    # The largest table holds the tokens; others hold positions.
    table = max(tables, key=lambda each: each.num_embeddings, default=None)
    if table is None or table.padding_idx is None or id(table.weight) not in trained:
        return
    columns = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    # The last token of a sequence is predicted, not read.
    ends = batch.starts + batch.lengths - 1
    is_read = (columns >= batch.starts[:, None]) & (columns < ends[:, None])
    rows = (is_read & (batch.input_ids == table.padding_idx)).any(dim=1).nonzero().flatten()
    if len(rows):
        raise ConfigError(
            f"sequence {int(rows[0])} reads token {table.padding_idx}, the padding token of "
            f"{trained[id(table.weight)]!r}, which gets no gradient there: a prediction would be "
            "wrong to first order. Leave the sequence out, or use another padding token"
        )


def _check_modules(model: nn.Module, trained: Mapping[int, str]) -> None:
    """Refuse trained modules whose gradients are sparse, or not the derivative of the output."""
    for module in model.modules():
        kind = type(module).__name__
        names = [
            trained[id(each)] for each in module.parameters(recurse=False) if id(each) in trained
        ]
        if names and getattr(module, "sparse", False) is True:
            raise ConfigError(
                f"{names[0]!r} has sparse gradients ({kind}(sparse=True)), which influence does "
                "not compute: build it with sparse=False"
            )
        # PEFT's DoRA treats the norm of the weight as a constant in the backward pass.
        if names and kind.startswith("Dora"):
            raise ConfigError(
                f"{names[0]!r} belongs to a DoRA adapter, whose gradients leave out how the norm "
                "of the weight changes: a prediction from them would be wrong to first order. Use "
                "LoRA (use_dora=False)"
            )


def _logits(model: nn.Module, input_ids: Tensor, name: str) -> Tensor:
    """The logits of a call with token ids alone, as every pass of the kernels makes it."""
    try:
        out: Any = model(input_ids)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{name} cannot be called with token ids alone ({error}); influence needs a causal "
            "language model: token ids [N, T] to logits [N, T, vocabulary]"
        ) from error
    logits = out if isinstance(out, torch.Tensor) else getattr(out, "logits", None)
    if not isinstance(logits, torch.Tensor):
        raise ConfigError(
            f"{name} is not a causal language model: it returns {type(out).__name__} without "
            "logits, expected a tensor of logits or an object with .logits"
        )
    return logits


def _vocabulary(model: nn.Module, logits: Tensor) -> int:
    """Token ids that the model accepts: as its config says, else those that have logits."""
    config = getattr(without_adapters(model), "config", None)
    size = getattr(config, "vocab_size", None)
    return size if isinstance(size, int) and size > 0 else int(logits.shape[2])


def _check_causal(
    model: nn.Module, input_ids: Tensor, logits: Tensor, vocabulary: int, name: str
) -> None:
    """Change the tokens of the second half; logits of the first half must not change."""
    half = max(1, input_ids.shape[1] // 2)
    changed = input_ids.clone()
    changed[:, half:] = (changed[:, half:] + 1) % vocabulary
    # Logits of −inf (tokens that are never chosen) have no difference.
    before = torch.nan_to_num(logits, 0.0, 0.0, 0.0)[:, :half]
    after = torch.nan_to_num(_logits(model, changed, name), 0.0, 0.0, 0.0)[:, :half]
    # Rounding: both calls have the same shapes, so most models give the same bits.
    eps = torch.finfo(logits.dtype).eps
    allowed = (8 if eps > 1e-4 else 64) * eps * float(before.abs().max())
    # By name too: in half precision an untrained model may change less than the rounding.
    is_masked = type(without_adapters(model)).__name__.endswith("ForMaskedLM")
    if float((after - before).abs().max()) > allowed or is_masked:
        raise ConfigError(
            f"{name} is not a causal language model: its logits for a token change with the tokens "
            "after it, so they are not log-probabilities of the next token. Masked language models "
            "(BERT) are not supported; load a causal model, or set is_decoder=True"
        )
