"""One interface to causal language models: hidden states, head, and decoding with a cache.

`BuiltInModel` and `HuggingFaceModel` have the same methods:

    hidden(ids_BT, mask_BT)   the head's input [B, T, W]
    head(hidden_NW)           logits [N, V] of some tokens
    decoder(capacity)         reads a batch token by token: `read` gives logits [B, V] after the
                              last new token, `keep` continues with some of the sequences

Shapes: B sequences, T new tokens, S all tokens so far, N some tokens, W values of a token, V tokens
of the vocabulary.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

from torch import Tensor, nn

from midstep.core.errors import ConfigError
from midstep.influence.gradients.model_parts import without_adapters
from midstep.models.causal_lm import CausalLM, KeyValueCache


class BuiltInModel:
    """The small language model of `midstep.models`."""

    def __init__(self, module: CausalLM) -> None:
        self.module = module
        self.context = module.config.context

    def hidden(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """The head's input."""
        return self.module.hidden(ids_BT, mask_BT)

    def head(self, hidden_NW: Tensor) -> Tensor:
        """Logits of some tokens."""
        logits: Tensor = self.module.head(hidden_NW)
        return logits

    def decoder(self, capacity: int) -> _BuiltInDecoder:
        """A decoder for sequences of up to `capacity` tokens."""
        return _BuiltInDecoder(self.module, capacity)


class _BuiltInDecoder:
    def __init__(self, module: CausalLM, capacity: int) -> None:
        self._module, self._cache = module, KeyValueCache(capacity)

    def read(self, ids_BT: Tensor, mask_BS: Tensor) -> Tensor:
        hidden = self._module.hidden(ids_BT, mask_BS, self._cache)
        logits: Tensor = self._module.head(hidden[:, -1])
        return logits

    def keep(self, rows: Tensor) -> None:
        self._cache.keep(rows)


class HuggingFaceModel:
    """A causal language model of transformers, as `AutoModelForCausalLM` loads it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._model = cast("Any", module)
        settings = self._model.config
        limit = getattr(settings, "max_position_embeddings", None) or getattr(
            settings, "n_positions", None
        )
        # Models with relative positions have no limit; 2³¹ is more than any sequence.
        self.context = int(limit) if limit else 2**31
        self._takes_position_ids = (
            "position_ids" in inspect.signature(self._model.forward).parameters
        )
        # Gemma caps and Cohere scales its logits after the head, so the head alone is not enough.
        logit_cap = getattr(settings, "final_logit_softcapping", None)
        logit_scale = getattr(settings, "logit_scale", None) or getattr(
            settings, "logits_scaling", None
        )
        self._has_plain_head = not logit_cap and logit_scale in (None, 1, 1.0)
        self._head: Any = self._model.get_output_embeddings()
        if self._head is None:
            raise ConfigError(
                f"{type(module).__name__} has no output head; load a causal language model"
            )

    def model_inputs(self, ids_BT: Tensor, mask_BS: Tensor) -> dict[str, Tensor]:
        """Keyword arguments of the model. Positions count real tokens only."""
        inputs = {"input_ids": ids_BT, "attention_mask": mask_BS}
        # Without them a model counts the padding on the left as positions.
        if self._takes_position_ids:
            positions = (mask_BS.long().cumsum(1) - 1).clamp(min=0)
            inputs["position_ids"] = positions[:, -ids_BT.shape[1] :]
        return inputs

    def hidden(self, ids_BT: Tensor, mask_BT: Tensor) -> Tensor:
        """The head's input; for a model that caps or scales its logits, the logits themselves."""
        inputs = self.model_inputs(ids_BT, mask_BT)
        if not self._has_plain_head:
            logits: Tensor = self._model(**inputs).logits
            return logits
        # `base_model` is the model below the head; of a PEFT wrapper it would be an adapter.
        model: Any = without_adapters(self.module)
        states: Tensor = model.base_model(**inputs, use_cache=False)[0]
        return states

    def head(self, hidden_NW: Tensor) -> Tensor:
        """Logits of some tokens."""
        if not self._has_plain_head:
            return hidden_NW
        logits: Tensor = self._head(hidden_NW)
        return logits

    def decoder(self, capacity: int) -> _HuggingFaceDecoder:  # noqa: ARG002 - see below
        """A decoder; the cache of transformers grows by itself and needs no capacity."""
        return _HuggingFaceDecoder(self)


class _HuggingFaceDecoder:
    def __init__(self, model: HuggingFaceModel) -> None:
        self._model, self._cache = model, None

    def read(self, ids_BT: Tensor, mask_BS: Tensor) -> Tensor:
        output = self._model._model(
            **self._model.model_inputs(ids_BT, mask_BS), past_key_values=self._cache, use_cache=True
        )
        self._cache = output.past_key_values
        logits: Tensor = output.logits[:, -1]
        return logits

    def keep(self, rows: Tensor) -> None:
        cache: Any = self._cache
        cache.batch_select_indices(rows)


LanguageModel = BuiltInModel | HuggingFaceModel


def language_model(module: nn.Module | LanguageModel) -> LanguageModel:
    """The interface to `module`.

    >>> from midstep.models.causal_lm import CausalLMConfig
    >>> language_model(CausalLM(CausalLMConfig(vocab_size=9, context=32))).context
    32
    """
    if isinstance(module, CausalLM):
        return BuiltInModel(module)
    if isinstance(module, BuiltInModel | HuggingFaceModel):
        return module
    if isinstance(module, nn.Module) and hasattr(module, "get_output_embeddings"):
        return HuggingFaceModel(module)
    raise ConfigError(
        f"cannot sample from {type(module).__name__}; give a midstep CausalLM or a causal language "
        "model of transformers"
    )
