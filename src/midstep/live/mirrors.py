"""`mirror=` of `attach`: takes over the scalars that the script sends to its own tracker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from midstep.core.errors import ConfigError
from midstep.live.script.patches.function_patches import Patches
from midstep.live.script.patches.import_hook import ImportHook
from midstep.live.script.patches.logged_scalars import SCALAR_SOURCES, take_scalars

TRACKERS = tuple(dict.fromkeys(source for source, _ in SCALAR_SOURCES.values()))
"""What can be mirrored: tensorboard, wandb, trainer."""


def check_mirrors(mirror: Sequence[str]) -> None:
    """Refuse names of trackers that are not known.

    >>> check_mirrors(("tensorboard", "wandb"))
    """
    wrong = [mirror] if isinstance(mirror, str) else [m for m in mirror if m not in TRACKERS]
    if wrong:
        known = ", ".join(map(repr, TRACKERS))
        raise ConfigError(f"mirror={wrong[0]!r} is not a list of trackers; there are {known}")


@contextmanager
def mirror_scalars(
    mirror: Sequence[str], log: Callable[[Mapping[str, Any]], object]
) -> Iterator[None]:
    """Log what the script sends to these trackers until the block ends.

    Args:
        mirror: names of trackers.
        log: receives the scalars of each call.
    """
    patches = Patches()

    def take(_source: str, values: Mapping[str, Any]) -> None:
        log(values)

    hook = ImportHook(
        {
            module: lambda loaded: take_scalars(patches, loaded, take)
            for module, (source, _) in SCALAR_SOURCES.items()
            if source in mirror
        }
    )
    hook.install()
    try:
        yield
    finally:
        hook.remove()
        patches.undo()
