"""From a batch to the numbers that a network reads, and from its features back to a sample.

A token with id 0 is padding. Its values are replaced by zeros before any layer reads them, so they
cannot influence a latent vector, also if they are not finite.
"""

from __future__ import annotations

import torch
from torch import nn

from midstep.core.sample_spec import SampleSpec
from midstep.models.autoencoder.layers import activation
from midstep.models.autoencoder.part_bases import Batch


def real_tokens(batch: Batch) -> torch.Tensor:
    """Mask [B, n_tokens] of the tokens that are not padding.

    >>> real_tokens({"tokens_id": torch.tensor([[3, 1, 0]])})
    tensor([[ True,  True, False]])
    """
    return batch["tokens_id"] != 0


def flat_width(spec: SampleSpec) -> int:
    """Values of an image or a vector."""
    if spec.kind == "image":
        return spec.channels * spec.height * spec.width
    return spec.features


class TokenInput(nn.Module):
    """Tokens of an event as features [B, n_tokens, width]: values and embedding of the type.

    Args:
        spec: sizes of an event.
        id_embedding: length of the embedding.
        has_positions: whether the features also say which token of the event it is. Layers that
            read each token alone need it, because a decoder has to restore the order of tokens.
    """

    def __init__(self, spec: SampleSpec, id_embedding: int, *, has_positions: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(spec.num_types, id_embedding)
        positions = torch.randn(spec.n_tokens, id_embedding)
        self.positions = nn.Parameter(positions) if has_positions else None
        self.width = spec.cont_dim + id_embedding * (2 if has_positions else 1)

    def forward(self, batch: Batch, mask: torch.Tensor) -> torch.Tensor:
        """Features of the tokens; `tokens_id` may also be logits, as in a reconstruction."""
        ids = batch["tokens_id"]
        if ids.is_floating_point():
            types = ids.softmax(-1) @ self.embedding.weight
        else:
            types = self.embedding(ids)
        features = [batch["tokens_cont"].to(types.dtype), types]
        if self.positions is not None:
            features.append(self.positions.to(types.dtype).expand(len(types), -1, -1))
        return torch.where(mask.unsqueeze(-1), torch.cat(features, -1), 0)


class FlatInput(nn.Module):
    """A sample as one vector [B, width]: all tokens and globals, all pixels, or the vector itself.

    Args:
        spec: kind and sizes of a sample.
        id_embedding: length of the embedding of a token's type.
    """

    def __init__(self, spec: SampleSpec, id_embedding: int) -> None:
        super().__init__()
        self.spec = spec
        self.tokens = TokenInput(spec, id_embedding) if spec.kind == "events" else None
        if self.tokens is None:
            self.width = flat_width(spec)
        else:
            self.width = spec.n_tokens * self.tokens.width + spec.globals

    def forward(self, batch: Batch) -> torch.Tensor:
        """The samples of a batch as vectors."""
        if self.tokens is None:
            return batch["image" if self.spec.kind == "image" else "x"].flatten(1)
        flat: torch.Tensor = self.tokens(batch, real_tokens(batch)).flatten(1)
        if self.spec.globals:
            flat = torch.cat([flat, batch["globals"].to(flat.dtype)], -1)
        return flat


class GlobalsHead(nn.Sequential):
    """The globals of an event from its latent vector: a head of their own."""

    def __init__(self, latent_dim: int, hidden: int, spec: SampleSpec, act: str) -> None:
        super().__init__(
            nn.Linear(latent_dim, hidden), activation(act), nn.Linear(hidden, spec.globals)
        )


class TokenHead(nn.Module):
    """Values and logits of the type of each token from its features [B, n_tokens, width]."""

    def __init__(self, width: int, spec: SampleSpec) -> None:
        super().__init__()
        self.cont = nn.Linear(width, spec.cont_dim)
        self.ids = nn.Linear(width, spec.num_types)

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """`tokens_cont` and the logits `tokens_id`."""
        return {"tokens_cont": self.cont(features), "tokens_id": self.ids(features)}


class SampleHead(nn.Module):
    """A sample from features [B, width] of it as a whole.

    Args:
        width: length of the features.
        latent_dim: length of the latent vector, which the head of the globals reads.
        spec: kind and sizes of a sample.
        act: name of the activation in the head of the globals.
    """

    def __init__(self, width: int, latent_dim: int, spec: SampleSpec, act: str) -> None:
        super().__init__()
        self.spec = spec
        if spec.kind == "events":
            self.cont = nn.Linear(width, spec.n_tokens * spec.cont_dim)
            self.ids = nn.Linear(width, spec.n_tokens * spec.num_types)
            self.globals = GlobalsHead(latent_dim, width, spec, act) if spec.globals else None
        else:
            self.cont = nn.Linear(width, flat_width(spec))

    def forward(self, features: torch.Tensor, latent: torch.Tensor) -> dict[str, torch.Tensor]:
        """The sample by the names of a batch; `tokens_id` holds logits."""
        spec = self.spec
        values = self.cont(features)
        if spec.kind == "vector":
            return {"x": values}
        if spec.kind == "image":
            return {"image": values.unflatten(-1, (spec.channels, spec.height, spec.width))}
        sample = {
            "tokens_cont": values.unflatten(-1, (spec.n_tokens, spec.cont_dim)),
            "tokens_id": self.ids(features).unflatten(-1, (spec.n_tokens, spec.num_types)),
        }
        if self.globals is not None:
            sample["globals"] = self.globals(latent)
        return sample
