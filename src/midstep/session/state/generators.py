"""Random generators of the user's own: found in functions, datasets, modules and loops, and saved.

A generator that the training draws from and that no snapshot holds makes a resume inexact without
a sign. They are looked for by following what a function or an object refers to, without calling
anything of the user's.
"""

from __future__ import annotations

import functools
import itertools
import logging
import random
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from midstep.core.protocols import Stateful
from midstep.data.random_state import (
    Generator,
    find_generators,
    get_generator_state,
    set_generator_state,
)

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts

log = logging.getLogger("midstep.session")
MOST_VISITS = 20_000
"""Most objects that one search follows."""
MOST_ITEMS = 32
"""Most items of a container that are searched."""
DEPTH = 6
"""How many references deep to search."""

_PLAIN = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    torch.Tensor,
    torch.dtype,
    torch.device,
    np.ndarray,
    np.generic,
    type,
    types.ModuleType,
    types.CodeType,
    range,
)
_METHODS = frozenset({"forward", "__call__", "__getitem__", "__getitems__", "__iter__"})
"""Methods that compute or read samples; other methods of a class are not searched."""
_OUTSIDE = (
    "torch.",
    "numpy.",
    "midstep.",
    "_pytest.",
    "pytest.",
    "threading",
    "logging",
    "asyncio",
)


class GeneratorSearch:
    """Finds generators, and iterators whose position is in no state, by the path to them.

    Args:
        outside: objects that are not searched.

    >>> search = GeneratorSearch()
    >>> search.look_at("collate_fn", functools.partial(print, rng=random.Random(0)))
    >>> list(search.generators)
    ['collate_fn.named.rng']
    """

    def __init__(self, outside: Sequence[Any] = ()) -> None:
        self.generators: dict[str, Generator] = {}
        """Generators by the path of names that leads to them."""
        self.unsaved: dict[str, str] = {}
        """What else has a state that no snapshot holds, by its path: half a sentence."""
        self.modules: dict[str, nn.Module] = {}
        """Modules, by their path; not those inside of another one."""
        # Kept, so that no object is freed and its id given to another one during the search.
        self._outside = list(outside)
        self._seen = {id(each) for each in outside}
        self._visits = 0

    def look_at(self, name: str, value: Any, *, depth: int = DEPTH) -> None:
        """Search what `value` refers to."""
        waiting = deque([(name, value, depth)])
        while waiting and self._visits < MOST_VISITS:
            path, each, left = waiting.popleft()
            if isinstance(each, _PLAIN) or id(each) in self._seen:
                continue
            self._seen.add(id(each))
            self._outside.append(each)
            self._visits += 1
            if isinstance(each, Generator):
                # A SystemRandom has no state: it draws from the operating system.
                if not isinstance(each, random.SystemRandom):
                    self.generators[path] = each
                continue
            if _is_running_pass(each):
                self.unsaved[path] = f"{path} is a running {type(each).__name__}, and its position"
                continue
            if isinstance(each, LRScheduler | Optimizer | GradScaler):
                self.unsaved[path] = f"{path} is a {type(each).__name__} that was not given, and it"
                continue
            if isinstance(each, nn.Module):
                self.modules[path] = each
            if left > 0:
                waiting += [(f"{path}.{key}", part, left - 1) for key, part in _safely(each)]


def _safely(value: Any) -> list[tuple[str, Any]]:
    """What a value refers to; nothing if reading its attributes raises, as some proxies do."""
    try:
        return list(_references(value))
    except Exception:
        log.debug("an object of type %s cannot be searched", type(value), exc_info=True)
        return []


def _is_running_pass(value: Any) -> bool:
    """Whether this is an iterator over data whose position only it knows."""
    if isinstance(value, types.GeneratorType):
        variables = {} if value.gi_frame is None else value.gi_frame.f_locals
        return any(
            isinstance(each, DataLoader | _BaseDataLoaderIter) for each in variables.values()
        )
    return isinstance(value, _BaseDataLoaderIter | itertools.cycle)


def _references(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value refers to, by name. Nothing of the user's is called."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
        yield "function", value.__func__
    elif isinstance(value, types.BuiltinFunctionType):
        yield "self", value.__self__  # `rng.random` is a method of its generator
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("arguments", value.args), ("named", value.keywords))
    elif isinstance(value, Mapping):
        if isinstance(value, dict):
            yield from (
                (str(key), each) for key, each in itertools.islice(value.items(), MOST_ITEMS)
            )
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((str(i), each) for i, each in enumerate(itertools.islice(value, MOST_ITEMS)))
    elif isinstance(value, nn.Module):
        for name, module in value.named_modules():
            yield from _attributes(module, name)
            yield from _hooks(module, name)
    elif isinstance(value, types.CellType):
        with_content = _cell(value)
        yield from () if with_content is None else [("value", with_content)]
    elif not (type(value).__module__ or "").startswith(_OUTSIDE) or isinstance(
        value, DataLoader | Dataset
    ):
        yield from _attributes(value, "")


def _attributes(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance and of its class; not parameters and submodules."""
    own = getattr(value, "__dict__", {})
    for name, each in [*own.items(), *_class_attributes(type(value), own)]:
        if not (isinstance(value, nn.Module) and name.startswith("_") and isinstance(each, dict)):
            yield f"{prefix}.{name}" if prefix else name, each


def _class_attributes(kind: type, own: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the user's classes share between their instances, and what their data methods use."""
    for each in kind.__mro__:
        if each is not object and not each.__module__.startswith(_OUTSIDE):
            for name, value in vars(each).items():
                is_method = isinstance(value, types.FunctionType | property | classmethod)
                is_searched = name in _METHODS if is_method else not name.startswith("__")
                if is_searched and name not in own:
                    yield name, value


def _hooks(module: nn.Module, prefix: str) -> Iterator[tuple[str, Any]]:
    """The functions that a module calls before or after its forward pass."""
    for kind in ("_forward_hooks", "_forward_pre_hooks"):
        for index, hook in enumerate(list(getattr(module, kind, {}).values())):
            yield f"{prefix}.hook_{index}" if prefix else f"hook_{index}", hook


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Variables of enclosing functions, defaults, and globals that the code names."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        content = _cell(cell)
        if content is not None:
            yield name, content
    for index, default in enumerate(function.__defaults__ or ()):
        yield f"default_{index}", default
    yield from (function.__kwdefaults__ or {}).items()
    if not function.__module__ or function.__module__.startswith(_OUTSIDE):
        return
    yield from _globals_of(code, function.__globals__)


def _globals_of(code: types.CodeType, variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:  # functions inside the function
        if isinstance(constant, types.CodeType):
            names |= dict.fromkeys(constant.co_names)
    for name in names:
        if name in variables:
            yield name, variables[name]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


# -- where to look --------------------------------------------------------------------------------


def search_parts(parts: TrainingParts, known: Sequence[Any]) -> GeneratorSearch:
    """Search everything that a step of this training runs.

    Args:
        parts: what the user gave.
        known: generators that a snapshot holds already, such as those of samplers.
    """
    loader = parts.train_loader
    dataset = getattr(loader, "dataset", None)
    search = GeneratorSearch([*known, *declared(parts)])
    search.look_at("model", parts.model)
    search.look_at("loss_fn", parts.loss_fn)
    search.look_at("training_step", parts.training_step)
    for index, call in enumerate(parts.after_step):
        search.look_at(f"after_step_{index}", call)
    for index, call in enumerate(parts.after_epoch):
        search.look_at(f"after_epoch_{index}", call)
    if not getattr(loader, "num_workers", 0):  # workers have copies of their own
        search.look_at("dataset", dataset)
        search.look_at("collate_fn", getattr(loader, "collate_fn", None))
    return search


def declared(parts: TrainingParts) -> list[Any]:
    """Objects whose state is saved because the user gave them."""
    extra = parts.extra_state
    given = [*parts.optimizers, parts.scheduler, parts.scaler, *extra.parts]
    given += [each.env for each in extra.environments().values()]
    return [each for each in given if each is not None]


def generators_in_workers(loader: Any) -> list[str]:
    """Paths of the generators that a loader's workers draw from, each in a copy of its own.

    Those in attributes of a map-style dataset are named with the order of the loader. A stream may
    save its generators in its own state; those are left out.
    """
    if not getattr(loader, "num_workers", 0):
        return []
    is_stream = isinstance(loader.dataset, IterableDataset)
    search = GeneratorSearch([] if is_stream else find_generators(loader.dataset, depth=2))
    search.look_at("collate_fn", getattr(loader, "collate_fn", None))
    search.look_at("worker_init_fn", getattr(loader, "worker_init_fn", None))
    if not is_stream:
        search.look_at("dataset", loader.dataset)
    paths = list(search.generators)
    if is_stream and isinstance(loader.dataset, Stateful):
        state = loader.dataset.state_dict()
        search = GeneratorSearch()
        search.look_at("dataset", loader.dataset)
        for path, generator in search.generators.items():
            if not _holds(state, get_generator_state(path, generator)):
                paths.append(path)
    return paths


def _holds(tree: Any, state: Any, depth: int = 4) -> bool:
    """Whether the state of a generator is somewhere in the state of a dataset."""
    if type(tree) is type(state):
        if isinstance(state, torch.Tensor):
            return bool(torch.equal(tree, state))
        if repr(tree) == repr(state):
            return True
    if depth == 0:
        return False
    if isinstance(tree, Mapping):
        return any(_holds(each, state, depth - 1) for each in tree.values())
    return isinstance(tree, list | tuple) and any(_holds(each, state, depth - 1) for each in tree)


def search_frame(frame: types.FrameType | None, known: Sequence[Any]) -> GeneratorSearch:
    """Search the variables of the user's function that called us, as the loop of `attach`."""
    search = GeneratorSearch(known)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is not None:
        for name, value in list(frame.f_locals.items()):
            search.look_at(name, value)
        for name, value in _globals_of(frame.f_code, frame.f_globals):
            search.look_at(name, value)
    return search


def _is_ours(frame: types.FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.startswith(("midstep.", "torch.", "contextlib", "tqdm"))


# -- as a part of a snapshot ----------------------------------------------------------------------


class UserGenerators:
    """The generators that were found, as one part of a snapshot. Each is saved under its path.

    A generator that only one side has is left as it is: variables may have been renamed.

    >>> found = UserGenerators()
    >>> found.add({"rng": random.Random(3)})
    ['rng']
    >>> state = found.state_dict()
    >>> first = found.generators["rng"].random()
    >>> found.load_state_dict(state)
    >>> found.generators["rng"].random() == first
    True
    """

    def __init__(self) -> None:
        self.generators: dict[str, Any] = {}
        # States whose generator was not found yet: a loop may make it after the resume.
        self._unclaimed: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.generators)

    def add(self, generators: Mapping[str, Any]) -> list[str]:
        """Save these, too; returns the paths of those that were not known."""
        known = {id(each) for each in self.generators.values()}
        new = {path: each for path, each in generators.items() if id(each) not in known}
        self.generators.update(new)
        for path, generator in new.items():
            if path in self._unclaimed:
                _set(path, generator, self._unclaimed.pop(path))
        return list(new)

    def state_dict(self) -> dict[str, Any]:
        """The state of each."""
        return {path: get_generator_state(path, each) for path, each in self.generators.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore those that the state has."""
        self._unclaimed = {
            path: each for path, each in state.items() if path not in self.generators
        }
        for path, generator in self.generators.items():
            if path in state:
                _set(path, generator, state[path])


def _set(path: str, generator: Any, state: Any) -> None:
    """Restore a generator, unless another kind of generator has its name now."""
    if type(get_generator_state(path, generator)) is type(state):
        set_generator_state(generator, state)
