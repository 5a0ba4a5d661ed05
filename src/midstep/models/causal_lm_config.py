"""Settings of the small causal language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from midstep.core.errors import ConfigError

__all__ = ["CausalLMConfig", "Norm", "Positions"]

Positions = Literal["rotary", "learned"]
Norm = Literal["rms", "layer"]

_COUNTS = ("vocab_size", "width", "layers", "heads", "kv_heads", "mlp_width", "context")


@dataclass(frozen=True, kw_only=True)
class CausalLMConfig:
    """What a small causal language model is made of.

    >>> CausalLMConfig(vocab_size=32, heads=4, kv_heads=2).head_width
    32
    """

    vocab_size: int
    """Tokens it knows."""
    width: int = 128
    """Values of a token in the residual stream."""
    layers: int = 4
    """Blocks of attention and perceptron."""
    heads: int = 4
    """Query heads of a block; they divide `width`."""
    kv_heads: int | None = None
    """Key and value heads (grouped-query attention); they divide `heads`. None: as many."""
    mlp_width: int | None = None
    """Values between the two layers of a perceptron. None: four times `width`."""
    positions: Positions = "rotary"
    """rotary: queries and keys are turned (Su et al. 2021); learned: a vector for each place."""
    tied: bool = True
    """The head reads with the weights of the embedding."""
    norm: Norm = "rms"
    """rms: scale alone (Zhang, Sennrich 2019); layer: mean, scale and bias."""
    bias: bool = False
    """Linear layers of the blocks have biases."""
    context: int = 128
    """Tokens that a sequence may have."""
    rotary_base: float = 10_000.0
    """Base of the wavelengths of rotary positions."""
    seed: int = 0
    """Seed of the initial weights; a stream of its own, no global generator is drawn from."""

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value < 1):
                raise ConfigError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.positions not in get_args(Positions):
            raise ConfigError(f"positions must be 'rotary' or 'learned', got {self.positions!r}")
        if self.norm not in get_args(Norm):
            raise ConfigError(f"norm must be 'rms' or 'layer', got {self.norm!r}")
        self._check_heads()

    def _check_heads(self) -> None:
        if self.width % self.heads:
            raise ConfigError(
                f"{self.heads} heads do not divide the width {self.width}; change one of them"
            )
        if self.heads % self.key_heads:
            raise ConfigError(
                f"kv_heads={self.key_heads} does not divide heads={self.heads}; change one of them"
            )
        if self.positions == "rotary" and self.head_width % 2:
            raise ConfigError(
                f"rotary positions need an even number of values a head, got {self.head_width}; "
                "change width or heads, or use positions='learned'"
            )

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.width // self.heads

    @property
    def key_heads(self) -> int:
        """Key and value heads, as many as query heads unless said."""
        return self.kv_heads or self.heads

    @property
    def inner_width(self) -> int:
        """Values between the two layers of a perceptron."""
        return self.mlp_width or 4 * self.width
