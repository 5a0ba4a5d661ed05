"""Random generators of the user's own: found in functions, datasets, modules and loops, and saved.

A generator that the training draws from and that no snapshot holds makes a resume inexact without
a sign. They are looked for by following what a function or an object refers to, without calling
anything of the user's.
"""

from __future__ import annotations

import logging
import random
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.amp import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import IterableDataset

from midstep.core.protocols import Stateful
from midstep.data.random_state import (
    Generator,
    find_generators,
    get_generator_state,
    global_generators,
    set_generator_state,
)
from midstep.session.state.search.code_references import Method, references_of_code
from midstep.session.state.search.references import (
    is_running_pass,
    references_of,
    references_of_declared,
)

if TYPE_CHECKING:
    from midstep.session.state.training_parts import TrainingParts

log = logging.getLogger("midstep.session")
MOST_VISITS = 20_000
"""Most objects that one search follows."""
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


class GeneratorSearch:
    """Finds generators, and iterators whose position is in no state, by the path to them.

    Args:
        outside: objects that are not searched, besides the global generators.

    >>> import functools
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
        self._outside = [*outside, *global_generators()]
        self._seen: set[object] = {id(each) for each in self._outside}
        self._visits = 0

    def look_at(self, name: str, value: Any, *, depth: int = DEPTH) -> None:
        """Search what `value` refers to."""
        self._search(deque([(name, value, depth)]))

    def look_into_declared(self, name: str, part: Any) -> None:
        """Search what an optimizer or a scheduler refers to; its own state is saved."""
        references = _safely(part, references_of_declared)
        self._search(
            deque((f"{name}.{key}", each, DEPTH - 1) for key, each in references), saved=True
        )

    def _search(self, waiting: deque[tuple[str, Any, int]], *, saved: bool = False) -> None:
        while waiting and self._visits < MOST_VISITS:
            path, each, left = waiting.popleft()
            key = each.key if isinstance(each, Method) else id(each)
            if isinstance(each, _PLAIN) or key in self._seen:
                continue
            self._seen.add(key)
            self._outside.append(each)
            self._visits += 1
            if isinstance(each, Generator):
                # A SystemRandom has no state: it draws from the operating system.
                if not isinstance(each, random.SystemRandom):
                    self.generators[_unused(path, self.generators)] = each
                continue
            if is_running_pass(each):
                self.unsaved[path] = f"{path} is a running {type(each).__name__}, and its position"
                continue
            is_declarable = isinstance(each, LRScheduler | Optimizer | GradScaler)
            if is_declarable and not saved:
                self.unsaved[path] = f"{path} is a {type(each).__name__} that was not given, and it"
                continue
            if isinstance(each, nn.Module) and not saved:
                self.modules[path] = each
            if left > 0:
                references = _safely(
                    each, references_of_declared if is_declarable else references_of
                )
                waiting += [(f"{path}.{key}", part, left - 1) for key, part in references]


def _unused(path: str, known: Mapping[str, Any]) -> str:
    """The path, or a longer one if another generator has it, as that of another hook."""
    while path in known:
        path += "_2"
    return path


def _safely(
    value: Any, references: Callable[[Any], Iterable[tuple[str, Any]]]
) -> list[tuple[str, Any]]:
    """What a value refers to; nothing if reading its attributes raises, as some proxies do."""
    try:
        return list(references(value))
    except Exception:
        log.debug("an object of type %s cannot be searched", type(value), exc_info=True)
        return []


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
    search_declared(search, parts)
    return search


def search_declared(search: GeneratorSearch, parts: TrainingParts) -> None:
    """Search the optimizers and the scheduler, whose functions and hooks are in no state."""
    for key, optimizer in zip(parts.optimizer_keys, parts.optimizers, strict=True):
        search.look_into_declared(key, optimizer)
    search.look_into_declared("scheduler", parts.scheduler)


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
    named = [] if is_stream else find_generators(loader.dataset, depth=2, in_containers=False)
    search = GeneratorSearch(named)
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
        for name, value in references_of_code(frame.f_code, frame.f_globals, frame.f_locals):
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
        new: dict[str, Any] = {}
        for path, generator in generators.items():
            if id(generator) not in known:
                new[_unused(path, {**self.generators, **new})] = generator
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
