"""Settings of the classifier. Forms show them, so this module loads no torch."""

from __future__ import annotations

from dataclasses import dataclass

from midstep.core.field_checks import at_least, bounded_field, require, within


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig:
    """Sizes of a classifier.

    >>> ClassifierConfig().hidden_dims
    (64,)
    """

    hidden_dims: tuple[int, ...] = (64,)
    """Width of each hidden layer."""
    dropout: float = bounded_field(0.0, minimum=0, maximum=0.9)
    """Share of hidden units that a step leaves out."""

    def __post_init__(self) -> None:
        require(
            *(at_least("hidden_dims", width, 1) for width in self.hidden_dims),
            within("dropout", self.dropout, 0, 0.9),
        )
