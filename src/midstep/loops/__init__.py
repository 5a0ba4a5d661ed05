"""Training loops and the settings of a run."""

from typing import TYPE_CHECKING

from midstep.core.lazy_names import lazy_names

if TYPE_CHECKING:
    from midstep.loops.composed.loop_training import train_loop as train_loop
    from midstep.loops.config.composed_config import ComposedConfig as ComposedConfig
    from midstep.loops.config.composed_config import as_composed as as_composed
    from midstep.loops.config.composed_config import compose as compose
    from midstep.loops.config.train_config import TrainConfig as TrainConfig
    from midstep.loops.loop_registry import Loop as Loop
    from midstep.loops.loop_registry import register_loop as register_loop

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".composed.loop_training": "train_loop",
        ".config.composed_config": "ComposedConfig as_composed compose",
        ".config.train_config": "TrainConfig",
        ".loop_registry": "Loop register_loop",
    },
)
