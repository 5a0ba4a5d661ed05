"""`SampleSpec`: shapes of one sample, as a data source reports them and a model needs them.

Data and models are rooms of one row and must not import each other. They meet here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from midstep.core.field_checks import at_least, one_of, require

SampleKind = Literal["events", "image", "vector"]
_SIZES: Mapping[SampleKind, tuple[str, ...]] = {
    "events": ("n_tokens", "cont_dim", "num_types"),
    "image": ("channels", "height", "width"),
    "vector": ("features",),
}
"""Fields that a kind of sample needs; each must be at least 1."""


@dataclass(frozen=True, kw_only=True)
class SampleSpec:
    """Kind and sizes of the samples of a dataset. Sizes that a kind does not use are 0.

    A batch is a mapping of tensors:

    - events: `tokens_cont` [B, n_tokens, cont_dim], `tokens_id` [B, n_tokens], and
      `globals` [B, globals]
    - image: `image` [B, channels, height, width]
    - vector: `x` [B, features]

    Each may also have `label` [B]: a class, or 1 for an anomaly.

    >>> SampleSpec(kind="image", channels=1, height=8, width=8).meta["kind"]
    'image'
    """

    kind: SampleKind
    """What a sample is."""
    n_tokens: int = 0
    """Tokens of an event, padding included."""
    cont_dim: int = 0
    """Continuous values of a token."""
    globals: int = 0
    """Values of the event as a whole; may be 0."""
    num_types: int = 0
    """Token types, padding (0) included."""
    channels: int = 0
    """Channels of an image."""
    height: int = 0
    """Rows of an image."""
    width: int = 0
    """Columns of an image."""
    features: int = 0
    """Length of a vector."""
    classes: int = 0
    """Number of classes of `label`; 0 if there are none."""

    def __post_init__(self) -> None:
        require(one_of("kind", self.kind, get_args(SampleKind)))
        require(*(at_least(name, getattr(self, name), 1) for name in _SIZES[self.kind]))

    @property
    def meta(self) -> dict[str, Any]:
        """The spec as plain values, as `make_dataloaders` returns it and a run records it."""
        return asdict(self)
