"""Encoder and decoder `gnn`: dense message passing between the tokens of an event.

Every token sends a message to every token. Shapes: B events, T tokens.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import (
    activation,
    last_width,
    linear,
    masked_max,
    masked_mean,
)
from midstep.models.autoencoder.part_bases import Batch, Decoder, Encoder
from midstep.models.autoencoder.part_configs import DecoderConfig, EncoderConfig
from midstep.models.autoencoder.sample_layout import (
    GlobalsHead,
    TokenHead,
    TokenInput,
    real_tokens,
)

_NARROWER = 4
"""A message is narrower than a token by this factor: the T² messages of an event take most of the
time."""


class MessagePassing(nn.Module):
    """One round of messages: each token reads the mean message of all real tokens."""

    def __init__(self, inputs: int, outputs: int, act: str) -> None:
        super().__init__()
        message = max(1, outputs // _NARROWER)
        self.sender = linear(inputs, message, act)
        self.receiver = nn.Linear(inputs, message, bias=False)
        self.update = linear(inputs + message, outputs, act)
        self.norm = nn.LayerNorm(outputs)
        self.act = activation(act)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """New features [B, T, outputs] of tokens [B, T, inputs]; mask [B, T] is True where real."""
        pairs = self.sender(tokens).unsqueeze(1) + self.receiver(tokens).unsqueeze(2)
        messages = torch.where(mask[:, None, :, None], self.act(pairs), 0).sum(2)
        mean = messages / mask.sum(1).clamp(min=1)[:, None, None]
        updated: torch.Tensor = self.norm(self.act(self.update(torch.cat([tokens, mean], -1))))
        # Residual where the widths allow it, so that deep stacks train.
        return updated + tokens if updated.shape == tokens.shape else updated


class MessageStack(nn.Module):
    """Rounds of message passing, one for each width."""

    def __init__(self, inputs: int, hidden_dims: tuple[int, ...], act: str) -> None:
        super().__init__()
        widths = pairwise((inputs, *hidden_dims))
        self.rounds = nn.ModuleList(MessagePassing(*width, act) for width in widths)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features of the tokens after all rounds."""
        for each in self.rounds:
            tokens = each(tokens, mask)
        return tokens


class GnnEncoder(Encoder):
    """Message passing, then mean and maximum over the real tokens."""

    def __init__(self, cfg: EncoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        self.has_globals = spec.globals > 0
        self.tokens = TokenInput(spec, cfg.id_embedding, has_positions=True)
        self.messages = MessageStack(self.tokens.width, cfg.hidden_dims, cfg.activation)
        width = last_width(self.tokens.width, cfg.hidden_dims)
        self.latent = linear(2 * width + spec.globals, latent_dim)

    def forward(
        self,
        batch: Batch,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> torch.Tensor:
        """Latent vectors [B, latent_dim]."""
        mask = real_tokens(batch)
        features = self.messages(self.tokens(batch, mask), mask)
        pooled = [masked_mean(features, mask), masked_max(features, mask)]
        if self.has_globals:
            pooled.append(batch["globals"].to(features.dtype))
        latent: torch.Tensor = self.latent(torch.cat(pooled, -1))
        return latent


class GnnDecoder(Decoder):
    """Message passing between slots, one per token, that all start from the latent vector."""

    def __init__(self, cfg: DecoderConfig, spec: SampleSpec, latent_dim: int) -> None:
        super().__init__()
        width = (*cfg.hidden_dims, latent_dim)[0]
        self.slots = nn.Parameter(torch.randn(spec.n_tokens, width))
        self.start = linear(latent_dim, width)
        self.messages = MessageStack(width, cfg.hidden_dims, cfg.activation)
        last = last_width(width, cfg.hidden_dims)
        self.head = TokenHead(last, spec)
        self.globals = GlobalsHead(latent_dim, last, spec, cfg.activation) if spec.globals else None

    def forward(
        self,
        latent: torch.Tensor,
        generator: torch.Generator | None = None,  # noqa: ARG002 - draws nothing
    ) -> dict[str, torch.Tensor]:
        """An event for each latent vector, with all of its slots filled."""
        slots = self.start(latent).unsqueeze(1) + self.slots
        every_slot = torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device)
        event: dict[str, torch.Tensor] = self.head(self.messages(slots, every_slot))
        if self.globals is not None:
            event["globals"] = self.globals(latent)
        return event
