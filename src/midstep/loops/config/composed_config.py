"""Compose the settings of a run from the config tree and overrides, by Hydra's `compose`.

`@hydra.main` is not used: it creates the run directory before the data is checked.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError, MidstepError, MissingExtraError
from midstep.core.field_checks import read_dataclass
from midstep.loops.config.loop_settings import LoopSettings
from midstep.loops.config.override_checks import (
    CheckedOverride,
    Names,
    check_override,
    parse_overrides,
)
from midstep.loops.config.schema import keys_of, schema_of
from midstep.loops.config.train_config import FolderNames, TrainConfig
from midstep.loops.loop_registry import find_loop, loops

if TYPE_CHECKING:
    from omegaconf import DictConfig

FOLDERS = "hydra"
"""The group of folder names. Hydra keeps this name for itself, so it is composed apart."""
_NOT_GROUPS = frozenset({"__pycache__", FOLDERS})
_NO_LIST = "is not a ListConfig, list or tuple"
_LOCK = threading.Lock()
"""Hydra keeps its state in globals, and the server composes previews in several threads."""


@dataclass(frozen=True, kw_only=True)
class ComposedConfig:
    """The settings of a run, with everything that its directory records of them."""

    config: TrainConfig
    """The settings as dataclasses."""
    resolved: Mapping[str, Any]
    """The settings as plain values, as the header of the run records them."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """The chosen option of each group."""
    overrides: tuple[str, ...] = ()
    """What was changed, with full keys."""
    folders: FolderNames = field(default_factory=FolderNames)
    """Names of folders that were given."""

    @property
    def hydra_texts(self) -> Mapping[str, str]:
        """The files of the folder `.hydra`: `config.yaml`, `overrides.yaml` and `hydra.yaml`."""
        import yaml

        hydra = {
            "hydra": {
                **asdict(self.folders),
                "overrides": {"task": list(self.overrides)},
                "runtime": {"choices": dict(self.choices)},
            }
        }
        contents = {"config": self.resolved, "overrides": list(self.overrides), "hydra": hydra}
        return {
            f"{name}.yaml": yaml.safe_dump(each, sort_keys=False, allow_unicode=True)
            for name, each in contents.items()
        }


def compose(overrides: Sequence[str] = (), config_dir: str | Path | None = None) -> ComposedConfig:
    """The settings of one run: the tree of `midstep.conf` with these overrides.

    Args:
        overrides: `group=option` and `key=value`, as `midstep train` takes them.
        config_dir: a folder with further options of the groups.

    Raises:
        ConfigError: an override is wrong; one line says which, and what would be right.

    >>> compose(["loop=mlp", "trainer.seed=1"]).config.phase1.trainer.seed
    1
    """
    with _LOCK, _one_line_errors():
        tree = ConfigTree(config_dir)
        checked = tree.check(overrides)
        for each in checked:
            if each.is_sweep:
                raise ConfigError(f"{each} has several values; add -m to run one job for each")
        return tree.compose(checked)


class ConfigTree:
    """The options of `midstep.conf`, of registered loops and of a user's folder.

    Args:
        config_dir: the user's folder.
    """

    def __init__(self, config_dir: str | Path | None = None) -> None:
        _require_hydra()
        self._own = Path(str(files("midstep"))) / "conf"
        self._roots = [self._own]
        if config_dir is not None:
            if not Path(config_dir).is_dir():
                raise ConfigError(
                    f"--config-dir: folder not found: {config_dir}; create it or fix the path"
                )
            self._roots.append(Path(config_dir).resolve())
        self.options: dict[str, set[str]] = {}
        for root in self._roots:
            for path in sorted(root.rglob("*.yaml")):
                group = path.parent.relative_to(root).as_posix()
                if group != "." and group not in _NOT_GROUPS:
                    self.options.setdefault(group, set()).add(path.stem)
        self.options["loop"] |= set(loops())
        self.aliases = self._read_table("aliases")
        self.legacy = self._read_table("legacy_keys")

    def check(self, overrides: Iterable[str]) -> list[CheckedOverride]:
        """The overrides with full keys. Those of several values are allowed here, for sweeps."""
        with _one_line_errors():
            return self._check(overrides)

    def _check(self, overrides: Iterable[str]) -> list[CheckedOverride]:
        parsed = parse_overrides(overrides)
        every_loop = {
            name
            for each in parsed
            if each.key_or_group == "loop"
            for name in (
                map(str, each.sweep_iterator()) if each.is_sweep_override() else [str(each.value())]
            )
        } or {"ae"}
        aliases = self.aliases.get("loop", {})
        keys = {key for name in every_loop for key in self._keys(aliases.get(name, name))}
        names = Names(options=self.options, keys=keys, aliases=self.aliases, legacy=self.legacy)
        return [check_override(each, names) for each in parsed]

    def compose(self, checked: Sequence[CheckedOverride]) -> ComposedConfig:
        """The settings with checked overrides of one value each."""
        from omegaconf import OmegaConf

        folder_texts = [str(each) for each in checked if each.key.startswith(f"{FOLDERS}.")]
        texts = [str(each) for each in checked if not each.key.startswith(f"{FOLDERS}.")]
        option = next((each.text for each in reversed(checked) if each.key == "loop"), "ae")
        composed, choices = self._compose(texts, self._settings_of(option))
        resolved: dict[str, Any] = OmegaConf.to_container(composed, resolve=True)  # type: ignore[assignment]
        return ComposedConfig(
            config=read_train_config(resolved),
            resolved=resolved,
            choices=choices,
            overrides=(*texts, *folder_texts),
            folders=self._compose_folders(folder_texts),
        )

    def _compose(
        self, texts: list[str], settings: type[LoopSettings]
    ) -> tuple[DictConfig, dict[str, str]]:
        from hydra import compose as hydra_compose
        from hydra import initialize_config_dir
        from hydra.core.config_store import ConfigStore
        from omegaconf import open_dict

        store = ConfigStore.instance()
        store.store("schema", _train_schema(settings))
        for name in loops():
            if not any((root / "loop" / f"{name}.yaml").is_file() for root in self._roots):
                store.store(name, {}, group="loop")
        more = [f"file://{root}" for root in self._roots[1:]]
        search = [f"hydra.searchpath={more}"] if more else []
        with initialize_config_dir(str(self._own), job_name="midstep", version_base="1.3"):
            composed = hydra_compose("config", [*texts, *search], return_hydra_config=True)
        choices = {
            group: option
            for group, option in composed.hydra.runtime.choices.items()
            if not group.startswith("hydra/") and option is not None
        }
        with open_dict(composed):
            del composed["hydra"]
        return composed, choices

    def _compose_folders(self, texts: list[str]) -> FolderNames:
        from omegaconf import OmegaConf

        prefix = f"{FOLDERS}."
        given = OmegaConf.from_dotlist([text.removeprefix(prefix) for text in texts])
        defaults = OmegaConf.load(self._own / FOLDERS / "default.yaml")
        merged = OmegaConf.merge(OmegaConf.structured(schema_of(FolderNames)), defaults, given)
        values: dict[str, Any] = OmegaConf.to_container(merged, resolve=True)  # type: ignore[assignment]
        return read_dataclass(FolderNames, values)

    def _settings_of(self, option: str) -> type[LoopSettings]:
        """The settings of the loop that an option names; its file may name another loop."""
        return find_loop(str(self._read_option("loop", option).get("name", option))).settings_class

    def _keys(self, loop: str) -> Iterator[str]:
        yield from keys_of(TrainConfig)
        yield from keys_of(FolderNames, f"{FOLDERS}.")
        if loop in self.options["loop"]:
            yield from keys_of(self._settings_of(loop), "loop.")

    def _read_option(self, group: str, option: str) -> Mapping[str, Any]:
        import yaml

        for root in self._roots:
            path = root / group / f"{option}.yaml"
            if path.is_file():
                values = yaml.safe_load(path.read_text())
                return values if isinstance(values, Mapping) else {}
        return {}

    def _read_table(self, name: str) -> Mapping[str, Any]:
        import yaml

        table: Mapping[str, Any] = yaml.safe_load((self._own / f"{name}.yaml").read_text())
        return table


def as_composed(config: Any, *, loop: str | None = None) -> ComposedConfig:
    """Settings of any form as a `ComposedConfig`: composed, dataclasses, a mapping, a DictConfig.

    A mapping names what differs from the config tree, as overrides do.

    >>> as_composed({"data": {"batch_size": 32}}, loop="mlp").config.data.name
    'digits'

    Args:
        config: the settings.
        loop: which loop they must be for; a mapping need not name it.

    Raises:
        ConfigError: the settings are wrong, or name another loop.
    """
    if not isinstance(config, ComposedConfig):
        config = (
            ComposedConfig(config=config, resolved=_plain(asdict(config)))
            if isinstance(config, TrainConfig)
            else _compose_values(config, loop)
        )
    named = config.config.loop.name
    if loop not in (None, named):
        raise ConfigError(
            f"this function trains loop={loop}, but the settings name loop.name={named}; leave the "
            "name out, or call the function train of that loop"
        )
    composed: ComposedConfig = config
    return composed


def _compose_values(given: Any, loop: str | None) -> ComposedConfig:
    """The config tree with the options that the values name, and the values over them."""
    tree = ConfigTree()
    from omegaconf import OmegaConf

    with _one_line_errors():
        values = OmegaConf.create(dict(given)) if isinstance(given, Mapping) else given
        names = {
            group: OmegaConf.select(values, f"{group.replace('/', '.')}.name")
            for group in tree.options
        }
    chosen = names.pop("loop") or loop or "ae"
    options = [f"{group}={name}" for group, name in names.items() if name in tree.options[group]]
    base = compose([f"loop={chosen}", *options])
    return replace(resolve_values(values, base.resolved), choices=base.choices)


def resolve_values(given: Any, defaults: Mapping[str, Any] | None = None) -> ComposedConfig:
    """Settings over defaults, without the config tree; those of the dataclasses if left out."""
    _require_hydra()
    from omegaconf import OmegaConf

    with _one_line_errors():
        values = OmegaConf.merge(defaults or {}, given)
        loop = str(OmegaConf.select(values, "loop.name") or "ae")
        schema = OmegaConf.structured(_train_schema(find_loop(loop).settings_class))
        merged = OmegaConf.merge(schema, values)
        resolved: dict[str, Any] = OmegaConf.to_container(merged, resolve=True)  # type: ignore[assignment]
        return ComposedConfig(config=read_train_config(resolved), resolved=resolved)


def read_train_config(resolved: Mapping[str, Any]) -> TrainConfig:
    """The dataclasses of resolved settings, such as those in the header of a run."""
    mirror = resolved["logging"]["mirror"]
    if mirror is not None:
        raise ConfigError(
            f"logging={mirror} needs a mirror to a tracker, and there is none yet; "
            "use logging=default, which records facts on disk"
        )
    settings = find_loop(resolved["loop"]["name"]).settings_class
    loop = read_dataclass(settings, resolved["loop"], path="loop")
    return read_dataclass(TrainConfig, {**resolved, "loop": loop})


def _train_schema(settings: type[LoopSettings]) -> type[Any]:
    """The schema of all settings, with those of one loop under `loop`."""
    from dataclasses import make_dataclass

    own = ("loop", schema_of(settings), field(default_factory=schema_of(settings)))
    return make_dataclass("TrainSchema", [own], bases=(schema_of(TrainConfig),), kw_only=True)


def _plain(value: Any) -> Any:
    """Tuples as lists, as YAML and JSON have them."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _require_hydra() -> None:
    try:
        import hydra  # noqa: F401
    except ImportError as error:
        raise MissingExtraError.for_library(
            "hydra-core, which composes the settings of a run,", "runs"
        ) from error


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Errors of Hydra, OmegaConf and YAML as a `ConfigError` of one line."""
    import yaml
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except MidstepError:
        raise
    except OmegaConfBaseException as error:
        raise ConfigError(_first_line(error)) from error
    except HydraException as error:
        cause = error.__cause__
        reason = f": {_first_line(cause)}" if isinstance(cause, OmegaConfBaseException) else ""
        message = f"{_first_line(error)}{reason}"
        raise ConfigError(message.removeprefix("Error merging override ")) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"a file of the config tree is not YAML: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    # OmegaConf names its own classes here; a user writes a list in brackets.
    return "must be a list, such as [64,64]" if _NO_LIST in line else line
