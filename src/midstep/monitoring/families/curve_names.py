"""Which histories belong to which family, by their names."""

from __future__ import annotations

LATENCY = ("epoch_time_s", "throughput", "max_memory_mib")
_PLAYERS = (
    *("adversarial", "generator", "discriminator", "real_score", "fake_score"),
    *("feature_matching", "gen_", "disc_", "gan_"),
)
_DENOISER = ("diffusion", "noise", "denois")
_CODEBOOK = ("codebook_", "perplexity")


def is_of_players(name: str) -> bool:
    """Whether a history is about the two players of an adversarial training."""
    return _without_split(name).startswith(_PLAYERS)


def is_of_denoiser(name: str) -> bool:
    """Whether a history is about a denoiser.

    >>> is_of_denoiser("noise"), is_of_denoiser("val_loss")
    (True, False)
    """
    return _without_split(name).startswith(_DENOISER)


def is_loss(name: str) -> bool:
    """Whether the family `losses` draws it."""
    return name.endswith("_loss") and not (is_of_players(name) or is_of_denoiser(name))


def is_metric(name: str) -> bool:
    """Whether the family `metrics` draws it: what no other family does.

    >>> is_metric("accuracy"), is_metric("val_loss"), is_metric("throughput")
    (True, False, False)
    """
    return not (
        name in LATENCY
        or name.endswith("_loss")
        or is_of_players(name)
        or is_of_denoiser(name)
        or name.startswith(_CODEBOOK)
    )


def _without_split(name: str) -> str:
    return name.removeprefix("val_").removeprefix("test_")
