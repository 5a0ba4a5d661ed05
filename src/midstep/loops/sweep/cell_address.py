"""The address of a cell: a hash of its resolved config, its data and the code that it names."""

from __future__ import annotations

import ast
import hashlib
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import ConfigError, StorageError
from midstep.core.files.storage import storage_errors

DIGEST_BYTES = 16
MOST_HASHED_BYTES = 1 << 30
"""About a second of hashing."""
CODE_ROOMS = ("midstep.loops", "midstep.models", "midstep.data.sources")
"""Where the code of a training is. The other rooms control and record a training; resuming with
another version of them must not change it, which the tests of resume check."""
NOT_FOLLOWED = (
    "midstep.loops.config",
    "midstep.loops.loop_registry",
    "midstep.loops.recipe_settings",
    "midstep.loops.recipes",
    "midstep.loops.sweep",
    "midstep.models.autoencoder.builders",
    "midstep.models.autoencoder.part_configs",
    "midstep.models.autoencoder.part_registry",
    "midstep.data.sources.registry",
)
"""Registries and settings. Registries import what a config does not name; settings are in the
config."""


def digest_json(value: Any) -> str:
    """The hash of a value as canonical JSON: the order of keys does not matter.

    >>> digest_json({"a": 1, "b": 2}) == digest_json({"b": 2, "a": 1})
    True
    """
    return _digest(strict_json.dumps(_with_sorted_keys(strict_json.plain(value))).encode())


def cell_address(*, config_hash: str, data_fingerprint: str, code_hash: str) -> str:
    """The address from the hashes of the three parts."""
    return _digest(f"{config_hash}\n{data_fingerprint}\n{code_hash}".encode())


def fingerprint_data(files: Iterable[Path]) -> str:
    """The hash of the content of the data files; without files the config describes the data.

    Files of more than `MOST_HASHED_BYTES` together are compared by size and time of change: lists
    of sweeps ask for this often, and a plan from elsewhere may name files of any size.
    """
    statuses = {}
    for path in sorted(files):
        with storage_errors(path, "read the data file"):
            statuses[path] = status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # the plan may come from elsewhere; a pipe would block
            raise StorageError(f"the data file {path} is not a file; name a file with data.path")
    if sum(status.st_size for status in statuses.values()) > MOST_HASHED_BYTES:
        return digest_json([[each.st_size, each.st_mtime_ns] for each in statuses.values()])
    return digest_json(
        [_digest_file(path, each.st_size, each.st_mtime_ns) for path, each in statuses.items()]
    )


def digest_modules(names: Sequence[str]) -> str:
    """The hash of the source text of these modules and of those that they import.

    Only modules of `CODE_ROOMS` and of other packages than midstep that are named here count, so
    a change elsewhere in midstep does not make a cell outdated.
    """
    return digest_json({name: _module(name).digest for name in sorted(code_modules(names))})


def _with_sorted_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_sorted_keys(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_with_sorted_keys(item) for item in value]
    return value


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


@cache
def _digest_file(path: Path, size: int, modified_ns: int) -> str:
    """The hash of a file. Size and time are part of the key of the cache only."""
    del size, modified_ns
    with storage_errors(path, "read the data file"), path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=DIGEST_BYTES)
        ).hexdigest()


@dataclass(frozen=True)
class _Module:
    """A module that was read."""

    digest: str
    imported: frozenset[str]


def code_modules(names: Sequence[str]) -> set[str]:
    """These modules and, transitively, those of `CODE_ROOMS` that they import at the top."""
    collected: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in collected:
            collected.add(name)
            waiting.extend(each for each in _module(name).imported if _is_code(each))
    return collected


def _is_code(name: str) -> bool:
    def is_below(package: str) -> bool:
        return name == package or name.startswith(f"{package}.")

    return any(map(is_below, CODE_ROOMS)) and not any(map(is_below, NOT_FOLLOWED))


def _module(name: str) -> _Module:
    path, is_package = _find(name, tuple(sys.path))
    with storage_errors(path, "read the source"):
        status = path.stat()
    return _read_module(name, path, is_package, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1_000)
def _find(name: str, search_path: tuple[str, ...]) -> tuple[Path, bool]:
    """The source file of a module, and whether it is a package. Nothing is imported.

    The search path is part of the key of the cache only: another path may have another module.
    The name may come from a plan that somebody else wrote, and `find_spec` of a submodule would
    import its parents.
    """
    del search_path
    package, *parts = name.split(".")
    path = None
    if all(part.isidentifier() for part in (package, *parts)):
        path = next(filter(Path.is_file, _candidates(package, parts)), None)
    if path is None:
        raise ConfigError(
            f"there is no source of the module {name}, which the config names; if it was renamed, "
            "plan the sweep again with its command, midstep train -m …"
        )
    return path, path.name == "__init__.py"


def _candidates(package: str, parts: Sequence[str]) -> Iterator[Path]:
    """Where the source of a module can be."""
    try:
        spec = find_spec(package)
    except ValueError:  # `__main__`
        return
    if spec is not None and not parts and spec.origin is not None:
        origin = Path(spec.origin)
        if origin.suffix == ".py":
            yield origin
    elif spec is not None and parts:
        for folder in spec.submodule_search_locations or ():
            base = Path(folder).joinpath(*parts)
            yield from (base.with_suffix(".py"), base / "__init__.py")


def _own_file(name: str) -> Path | None:
    """The source file of a module of midstep; None if there is none."""
    package, *parts = name.split(".")
    if package != "midstep" or not parts:
        return None
    return next(filter(Path.is_file, _candidates(package, parts)), None)


@lru_cache(maxsize=1_000)
def _read_module(name: str, path: Path, is_package: bool, size: int, modified_ns: int) -> _Module:
    """Hash and imports of a module. Size and time are part of the key of the cache only."""
    del size, modified_ns
    with storage_errors(path, "read the source"):
        source = path.read_bytes()
    package = name if is_package else name.rpartition(".")[0]
    try:
        return _Module(_digest(source), frozenset(_imports(source, package)))
    except (SyntaxError, ValueError) as error:
        raise ConfigError(
            f"the source of the module {name} cannot be read: {error}; repair {path}"
        ) from error


def _imports(source: bytes, package: str) -> set[str]:
    """Modules that a module imports outside of functions; a registry imports lazily."""
    imported: set[str] = set()
    for node in _top_level(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base_of(node, package)
            imported.update(_module_of(base, alias.name) for alias in node.names)
    return imported


def _base_of(node: ast.ImportFrom, package: str) -> str:
    return resolve_name("." * node.level + (node.module or ""), package)


def _module_of(base: str, name: str) -> str:
    """The module that `from base import name` reads; a package may export names of its modules."""
    if _own_file(f"{base}.{name}") is not None:
        return f"{base}.{name}"
    path = _own_file(base)
    if path is None or path.name != "__init__.py":
        return base
    # Packages of midstep export names lazily, with imports for type checkers that name the module.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            return _base_of(node, base)
    return base


def _top_level(tree: ast.Module) -> list[ast.stmt]:
    """The statements outside of functions, without those for type checkers alone."""
    statements: list[ast.stmt] = []
    for node in tree.body:
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        statements += [] if is_for_types else [node]
    return statements
