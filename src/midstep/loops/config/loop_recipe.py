"""A loop of the config tree as a recipe: its groups and settings as a form, and a preview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.loops.config.composed_config import ConfigTree, compose
from midstep.loops.config.train_config import TrainConfig
from midstep.loops.loop_registry import Loop
from midstep.loops.recipe_settings import RecipeSetting, describe_nested

if TYPE_CHECKING:
    from midstep.loops.composed.loop_training import LoopTraining
    from midstep.loops.config.composed_config import ComposedConfig

FILE_KEY = "data.path"
"""The setting that names a data file."""
_PARTS = ("phase1/encoder", "phase1/decoder", "phase1/latent_space")


@dataclass(frozen=True)
class LoopRecipe:
    """A recipe whose settings are overrides of the config tree: `group: option`, `key: value`.

    >>> from midstep.loops.loop_registry import find_loop
    >>> LoopRecipe(find_loop("mlp")).settings[0].name
    'loop.hidden_dims'
    """

    loop: Loop
    """The loop that it trains."""

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return self.loop.name

    @property
    def title(self) -> str:
        """Title on the page."""
        return self.loop.title

    @property
    def about(self) -> str:
        """What it trains."""
        return self.loop.about

    @cached_property
    def settings(self) -> tuple[RecipeSetting, ...]:
        """The settings of the recipe, with the option of each group before its own settings."""
        composed = compose([f"loop={self.name}"])
        values, options = composed.config, ConfigTree().options
        form = list(self._group("loop", self.loop.settings_class, vars(values.loop)))
        for group, config, chosen in self._groups(values):
            offered = tuple(sorted(each for each in options[group] if not _is_mirror(each)))
            if len(offered) > 1:
                form.append(
                    RecipeSetting(
                        name=group,
                        kind="choice",
                        default=composed.choices[group],
                        group=group,
                        choices=offered,
                        about=f"Which option of the group {group} is used.",
                    )
                )
            form += self._group(group, config, vars(chosen))
        return tuple(form)

    def check_settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return `given`, or raise an error that names what is wrong."""
        self.compose(given)
        return dict(given)

    def prepare(self, given: Mapping[str, Any]) -> LoopTraining:
        """Build model and data for these settings. Wrong settings raise an error here."""
        from midstep.loops.composed.loop_training import LoopTraining

        composed = self.compose(given)
        if self.loop.threads is not None:
            import torch

            torch.set_num_threads(self.loop.threads)
        return LoopTraining(composed)

    def compose(self, given: Mapping[str, Any]) -> ComposedConfig:
        """The settings of a run with what was given."""
        if "loop" in given:
            raise ConfigError(f"recipe {self.name} names the loop; leave out the setting 'loop'")
        kinds = {each.name: each for each in self.settings}
        texts = [f"{name}={_text(value, kinds.get(name))}" for name, value in given.items()]
        return compose([f"loop={self.name}", *texts])

    def preview(self, given: Mapping[str, Any]) -> str:
        """The settings of a run as YAML."""
        return self.compose(given).hydra_texts["config.yaml"]

    def _groups(self, values: TrainConfig) -> list[tuple[str, type[Any], Any]]:
        """Name, dataclass and default values of each group that the loop uses."""
        groups: list[tuple[str, type[Any], Any]] = [("data", type(values.data), values.data)]
        parts = (*(_PARTS if self.loop.uses_phase1 else ()), "phase1/trainer")
        for group in parts:
            chosen = getattr(values.phase1, group.partition("/")[2])
            groups.append((group, type(chosen), chosen))
        return [*groups, ("logging", type(values.logging), values.logging)]

    def _group(
        self, group: str, config: type[Any], defaults: Mapping[str, Any]
    ) -> list[RecipeSetting]:
        prefix = f"{group.replace('/', '.')}."
        described = describe_nested(config, _nested(defaults), prefix, group=group)
        return [
            replace(each, kind="file") if each.name == FILE_KEY else each
            for each in described
            # The option of the group sets the name; there is no mirror to choose yet.
            if each.name not in (f"{prefix}name", "logging.mirror")
        ]


def data_file(given: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Settings with the path of the data file in place of its id.

    Args:
        given: settings as a request has them; a data file is given by its id.
        files: the files that may be used, by id.

    Raises:
        ConfigError: there is no file with this id.
    """
    file_id = given.get(FILE_KEY)
    if file_id is None:
        return dict(given)
    if file_id not in files:
        known = ", ".join(sorted(files)) or "none; start the server with --data FOLDER"
        raise ConfigError(f"{FILE_KEY}: there is no data file {file_id!r}; there are {known}")
    return {**given, FILE_KEY: str(files[file_id])}


def _is_mirror(option: str) -> bool:
    """Whether an option of `logging` needs a mirror to a tracker, which is refused."""
    return option.startswith("wandb_")


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _nested(vars(value)) if hasattr(value, "__dataclass_fields__") else value
        for name, value in values.items()
    }


def _text(value: Any, setting: RecipeSetting | None) -> str:
    """A value as the right side of an override."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_text(each, None) for each in value)}]"
    if not isinstance(value, str):
        return repr(value)
    if "${" in value:
        # OmegaConf would replace it, by a variable of the server's environment for example.
        raise ConfigError(f"{value!r} refers to another value; write the value itself")
    if setting is not None and setting.name == setting.group:
        return value  # an option
    # `auto` or a number, such as the batch size: typed as text, meant as a number.
    if setting is not None and isinstance(setting.default, int) and value.isdecimal():
        return value
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(value, Quote.single).with_quotes()
