"""`env_state`: an environment of reinforcement learning as a part of the training state.

No library is needed: an environment is an object with `step` and `reset`. Its attributes and those
of its wrappers are saved one by one, as far as a checkpoint can hold them. Objects are restored in
place, so the script that made them is run again first, as at every resume.
"""

from __future__ import annotations

import argparse
import enum
import functools
import logging
import random
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from midstep.core.errors import ConfigError
from midstep.core.protocols import Stateful
from midstep.data.random_state import Generator, get_generator_state, set_generator_state
from midstep.session.state.state_tree import MAX_DEPTH, UnsavableError, check_savable

DESCRIPTIONS = frozenset({"spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs"})
"""Attributes of Gymnasium that say how an environment was made; they do not change."""
_CODE = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    functools.partial,
    np.dtype,
    logging.Logger,
    PurePath,
    weakref.ReferenceType,
    *weakref.ProxyTypes,
)
"""What does not change between two steps. The script makes it again."""
_LISTS: dict[str, Any] = {"list": list, "tuple": tuple, "deque": deque}
_MAPPINGS: dict[str, Any] = {"dict": dict, "OrderedDict": OrderedDict}
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_OTHER_PROGRAMS = frozenset({"cv2", "matplotlib", "mujoco", "OpenGL", "pygame", "pyglet"})
"""Windows and simulators: their objects have references to memory that is not in attributes."""
MOST_OBJECTS = 50_000
"""Most objects of an environment that are searched; further ones are not saved."""


class _Plain:
    """A class without memory of its own outside of `__dict__`."""


def env_state(env: Any) -> EnvState:
    """The state of an environment, for `extra_state` of `attach` or `Session`.

    Saved are, of the environment and of each wrapper, the attributes that a checkpoint can hold:
    numbers, text, arrays, containers, random generators (those of its spaces, too), and objects
    of Python classes that consist of these. Other attributes, such as the world of a simulator or
    a window, are named when the run begins. After a resume or `back` the environment is then
    inexact until its next `reset`.

    Args:
        env: an environment of Gymnasium, a vector environment, or any object with `step` and
            `reset`. Environments in other processes cannot be saved.

    >>> class Walk:
    ...     def reset(self): self.at = 0
    ...     def step(self, action): self.at += action; return self.at
    >>> env = Walk(); env.reset(); state = env_state(env)
    >>> before = state.state_dict(); _ = env.step(3); state.load_state_dict(before); env.at
    0
    """
    if not (callable(getattr(env, "step", None)) and callable(getattr(env, "reset", None))):
        raise ConfigError(
            f"midstep.env_state takes an environment with step and reset, got a "
            f"{type(env).__name__}; give other objects to extra_state themselves"
        )
    return EnvState(env)


class EnvState:
    """The attributes of an environment and its wrappers as one part of a snapshot.

    Args:
        env: the outermost wrapper.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.unsaved: list[str] = []
        """Paths of the attributes that the last state taken or restored does not have."""

    def state_dict(self) -> dict[str, Any]:
        """The attributes as plain data. What cannot be saved is left out and named."""
        reader = _Reader()
        content = reader.read("", self.env)
        self.unsaved = reader.unsaved
        return {"env": content, "unsaved": reader.unsaved}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the attributes that the state has."""
        writer = _Writer()
        if not writer.restores_in_place("", self.env, state["env"]):
            saved = state["env"].get("class", "another object")
            raise ConfigError(
                f"the environment is a {type(self.env).__qualname__}, the snapshot has a {saved}; "
                "make the same environment with the same wrappers"
            )
        self.unsaved = list(dict.fromkeys([*state["unsaved"], *writer.unrestored]))


# -- reading --------------------------------------------------------------------------------------


class _Reader:
    """Turns an environment into a tree of `{"kind": …}` with plain data in it."""

    def __init__(self) -> None:
        self.unsaved: list[str] = []
        self._paths: dict[int, str] = {}
        self._arrays: dict[int, list[np.ndarray[Any, Any]]] = {}
        """Arrays that share memory, by the `id` of the array that owns it."""
        self._alive: list[Any] = []
        """Keeps temporary objects, so that no identity is used twice."""

    def read(self, path: str, value: Any) -> dict[str, Any]:
        """The content of a value; `{"kind": "unsaved"}` for what cannot be saved."""
        # By its own type: a proxy of an object pretends to be of the object's class.
        if issubclass(type(value), _CODE):
            return {"kind": "code"}
        if _is_plain(value):
            return {"kind": "plain", "value": value}
        if id(value) in self._paths:  # the same object at two places stays one object
            return {"kind": "same", "path": self._paths[id(value)]}
        self._paths[id(value)] = path
        self._alive.append(value)
        if path.count(".") > MAX_DEPTH // 4 or len(self._alive) > MOST_OBJECTS:
            return self._leave_out(path)
        return self._content(path, value)

    def _content(self, path: str, value: Any) -> dict[str, Any]:
        if isinstance(value, Generator):
            if isinstance(value, random.SystemRandom):
                return self._leave_out(path)
            kind = type(value).__name__
            return {"kind": "generator", "class": kind, "state": get_generator_state(path, value)}
        if isinstance(value, np.ndarray | torch.Tensor):
            return self._array(path, value)
        if isinstance(value, enum.Enum):
            return {"kind": "enum", "class": type(value).__qualname__, "name": value.name}
        for name, kind in _LISTS.items():
            if type(value) is kind:
                return self._items(name, path, value)
        for name, kind in _MAPPINGS.items():
            if type(value) is kind and all(_is_plain(key) for key in value):
                return self._entries(name, path, value)
        if isinstance(value, Mapping | set) and _can_save(value):  # a Counter, a defaultdict
            return {"kind": "plain", "value": value}
        if _is_space(value):
            return self._space(path, value)
        if isinstance(value, Stateful):
            return self._stateful(path, value)
        if _has_only_attributes(value) or _is_env(value):
            return self._object(path, value)
        return self._leave_out(path)

    def _leave_out(self, path: str) -> dict[str, Any]:
        self.unsaved.append(path or "the environment")
        return {"kind": "unsaved"}

    def _array(self, path: str, value: Any) -> dict[str, Any]:
        """An array; a view into another one is left out, since restoring would part the two."""
        if not _can_save(value):
            return self._leave_out(path)
        if isinstance(value, torch.Tensor):
            return {"kind": "array", "value": value}
        root = _root(value)
        others = self._arrays.setdefault(id(root), [])
        if any(np.may_share_memory(value, other) for other in others):
            return self._leave_out(path)
        others.append(value)
        self._alive.append(root)
        is_foreign = root.base is not None  # such as memory that processes share
        return {"kind": "foreign array" if is_foreign else "array", "value": value}

    def _items(self, name: str, path: str, value: Any) -> dict[str, Any]:
        if all(map(_is_plain, value)):
            return {"kind": "plain", "value": value}
        items = [self.read(_join(path, index), each) for index, each in enumerate(value)]
        limit = value.maxlen if isinstance(value, deque) else None
        return {"kind": name, "items": items, "maxlen": limit}

    def _entries(self, name: str, path: str, value: Mapping[Any, Any]) -> dict[str, Any]:
        entries = [[key, self.read(_join(path, key), each)] for key, each in value.items()]
        return {"kind": name, "entries": entries}

    def _stateful(self, path: str, value: Stateful) -> dict[str, Any]:
        state = value.state_dict()
        return {"kind": "stateful", "state": state} if _can_save(state) else self._leave_out(path)

    def _space(self, path: str, value: Any) -> dict[str, Any]:
        """Of a space only its generators change."""
        parts = {
            name: self.read(_join(path, name), each)
            for name, each in vars(value).items()
            if name == "_np_random" or _has_space(each)
        }
        return {"kind": "object", "class": type(value).__qualname__, "attributes": parts}

    def _object(self, path: str, value: Any) -> dict[str, Any]:
        own = {name: each for name, each in vars(value).items() if name not in DESCRIPTIONS}
        parts = {name: self.read(_join(path, name), each) for name, each in own.items()}
        return {
            "kind": "object",
            "class": type(value).__qualname__,
            "attributes": parts,
            "is_whole": True,
        }


# -- restoring ------------------------------------------------------------------------------------

_NOTHING = object()


class _Writer:
    """Restores what `_Reader` returned into the objects that are there."""

    def __init__(self) -> None:
        self.unrestored: list[str] = []
        """Paths of what could not be restored, since the object there is another one."""
        self._restored: dict[str, Any] = {}

    def restores_in_place(self, path: str, present: Any, content: Mapping[str, Any]) -> bool:
        """Restore an object; False if it is of another class than the saved one."""
        if content["kind"] != "object" or content["class"] != type(present).__qualname__:
            return False
        self._restored[path] = present
        attributes, saved = vars(present), content["attributes"]
        if content.get("is_whole"):
            for name in [name for name in attributes if name not in {*saved, *DESCRIPTIONS}]:
                del attributes[name]  # it was set after the state was taken
        for name, each in saved.items():
            value = self._restore(_join(path, name), attributes.get(name, _NOTHING), each)
            if value is not _NOTHING:
                # Not by `setattr`: wrappers define properties of these names.
                attributes[name] = value
        return True

    def _restore(self, path: str, present: Any, content: Mapping[str, Any]) -> Any:
        """The restored value: the object that is there, or a new one; `_NOTHING` to leave it."""
        kind = content["kind"]
        if kind in ("code", "unsaved"):
            return _NOTHING
        if kind == "same":
            return self._restored.get(content["path"], _NOTHING)
        value = self._value(kind, path, present, content)
        if value is _NOTHING:
            self.unrestored.append(path)
        else:
            self._restored[path] = value
        return value

    def _value(self, kind: str, path: str, present: Any, content: Mapping[str, Any]) -> Any:
        if kind == "foreign array" and _same_form(present, content["value"]):
            np.copyto(present, content["value"])
            return present
        if kind in ("plain", "array", "foreign array"):
            return content["value"]
        if kind == "generator":
            return _generator(present, content["class"], content["state"])
        if kind == "enum":
            same = isinstance(present, enum.Enum) and type(present).__qualname__ == content["class"]
            return type(present)[content["name"]] if same else _NOTHING
        if kind == "stateful":
            if not isinstance(present, Stateful):
                return _NOTHING
            present.load_state_dict(content["state"])
            return present
        if kind == "object":
            return present if self.restores_in_place(path, present, content) else _NOTHING
        if kind in _MAPPINGS:
            return self._mapping(path, present, content)
        return self._list(path, present, content)

    def _mapping(self, path: str, present: Any, content: Mapping[str, Any]) -> Any:
        old = present if type(present) is _MAPPINGS[content["kind"]] else {}
        entries = {
            key: self._member(_join(path, key), old.get(key, _NOTHING), each)
            for key, each in content["entries"]
        }
        if any(each is _NOTHING for each in entries.values()):
            return _NOTHING
        if old is not present:
            return _MAPPINGS[content["kind"]](entries)
        present.clear()  # in place: other objects may hold it
        present.update(entries)
        return present

    def _list(self, path: str, present: Any, content: Mapping[str, Any]) -> Any:
        make = _LISTS[content["kind"]]
        old: list[Any] = list(present) if type(present) is make else []
        old += [_NOTHING] * (len(content["items"]) - len(old))
        items = [
            self._member(_join(path, index), old[index], each)
            for index, each in enumerate(content["items"])
        ]
        if any(each is _NOTHING for each in items):
            return _NOTHING
        if type(present) is make and make is not tuple:
            present.clear()
            present.extend(items)
            return present
        return deque(items, content["maxlen"]) if make is deque else make(items)

    def _member(self, path: str, present: Any, content: Mapping[str, Any]) -> Any:
        """As `_restore`, with what is there for what was not saved."""
        value = self._restore(path, present, content)
        return present if value is _NOTHING else value


_GENERATORS: dict[str, Callable[[], Any]] = {
    "Random": random.Random,
    "RandomState": np.random.RandomState,
}


def _generator(present: Any, kind: str, state: Any) -> Any:
    """The generator that is there, or a new one of that kind, in the saved state."""
    generator = present
    if type(present).__name__ != kind:
        if kind == "Generator" and isinstance(state, torch.Tensor):
            generator = torch.Generator()
        elif kind == "Generator":
            generator = np.random.Generator(getattr(np.random, state["bit_generator"])())
        elif kind in _GENERATORS:
            generator = _GENERATORS[kind]()
        else:
            return _NOTHING
    elif not _takes(present, state):
        return _generator(None, kind, state)
    set_generator_state(generator, state)
    return generator


def _takes(generator: Any, state: Any) -> bool:
    """Whether a generator of the right name is of the right library and algorithm, too."""
    if isinstance(generator, torch.Generator) or isinstance(state, torch.Tensor):
        return isinstance(generator, torch.Generator) and isinstance(state, torch.Tensor)
    if isinstance(generator, np.random.Generator):
        return bool(type(generator.bit_generator).__name__ == state["bit_generator"])
    return True


# -- what an object is ----------------------------------------------------------------------------


def _join(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


def _is_plain(value: Any) -> bool:
    """Whether a value is immutable and plain: a number, text, or a tuple of such."""
    if type(value) is tuple or type(value) is frozenset:
        return all(map(_is_plain, value))
    is_container = isinstance(value, np.ndarray | torch.Tensor | Mapping | list | deque | set)
    return not is_container and _can_save(value)


def _can_save(value: Any) -> bool:
    try:
        check_savable(value, ())
    except UnsavableError:
        return False
    return True


def _is_env(value: Any) -> bool:
    """Whether this is an environment or a wrapper that keeps its state in attributes."""
    has_methods = callable(getattr(value, "step", None)) and callable(getattr(value, "reset", None))
    return has_methods and hasattr(value, "__dict__")


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that an array is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _same_form(present: Any, value: np.ndarray[Any, Any]) -> bool:
    return (
        isinstance(present, np.ndarray)
        and present.flags.writeable
        and (present.dtype, present.shape) == (value.dtype, value.shape)
    )


def _is_space(value: Any) -> bool:
    methods = ("sample", "contains", "seed")
    return hasattr(value, "__dict__") and all(callable(getattr(value, m, None)) for m in methods)


def _has_space(value: Any) -> bool:
    return any(map(_is_space, _members(value)))


def _members(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from value


def _has_only_attributes(value: Any) -> bool:
    """Whether everything that an object knows is in its `__dict__`.

    An object of an extension, or with slots, has more memory than one of a plain Python class.
    """
    if not hasattr(value, "__dict__"):
        return False
    if isinstance(value, _NAMESPACES) or is_dataclass(value):
        return True
    top = type(value).__module__.partition(".")[0]
    if top in _OTHER_PROGRAMS or (top in sys.stdlib_module_names and top != "__main__"):
        return False
    return type(value).__basicsize__ == _Plain.__basicsize__
