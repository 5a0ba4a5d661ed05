"""One page for each package with public names: signatures, docstrings, fields and methods.

These pages are made with the documentation (`mkdocs_hook`) and are not stored: they would change
with every docstring.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

from tools.references import markdown
from tools.references.docstrings import as_markdown

PACKAGES = {
    "midstep": "The names that a script uses. Everything else is in the packages below it.",
    "midstep.live": "What `attach` and `serve` return.",
    "midstep.control": "The controller of a run, its breakpoints, panels and commands.",
    "midstep.session": "Runs and sessions.",
    "midstep.session.hooks": "Hooks that read a model during a step; also `midstep.hooks`.",
    "midstep.client": "The HTTP client: what every button of the page does, from Python.",
    "midstep.facts": "Records of runs: how to read, follow, list and write them.",
    "midstep.data": "Datasets of embeddings: how to build, read, load and check them.",
    "midstep.data.sources": "The data of a training, by name.",
    "midstep.loops": "Loops that are trained from composed settings.",
    "midstep.models.autoencoder": "Parts of autoencoders, and their losses.",
    "midstep.models.competitive": "Competitive learning on a linear layer.",
    "midstep.monitoring": "Figures of a run.",
    "midstep.influence": "Which sequences of an update changed which predictions.",
}
LINE_LENGTH = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", ast.ClassDef, ast.FunctionDef)


def pages() -> dict[str, str]:
    """The text of each page by its path below `docs/reference`."""
    written: dict[int, str] = {}
    texts = {}
    for package, about in PACKAGES.items():
        lines = _lines(package, written)
        texts[f"python/{file_name(package)}"] = markdown.page(f"`{package}`", about, lines)
    return texts


def file_name(package: str) -> str:
    """The file of a package's page."""
    return f"{package.replace('.', '-')}.md"


def _lines(package: str, written: dict[int, str]) -> Iterator[str]:
    """The public names of a package; one that another page has is a link to it."""
    module = importlib.import_module(package)
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if name.startswith("_"):
            continue
        home = written.setdefault(id(value), package)
        yield from [f"## {name}", ""]
        if isinstance(value, ModuleType):
            yield from [f"The package [{value.__name__}]({file_name(value.__name__)}).", ""]
        elif home != package:
            yield from [f"The same as [{home}.{name}]({file_name(home)}#{name.lower()}).", ""]
        elif inspect.isclass(value):
            yield from _class(name, value)
        elif inspect.isfunction(value):
            yield from _function(name, _function_node(value), value.__doc__)
        else:
            yield from _fenced([f"{name} = {_value(value)}"])


# -- functions and methods ------------------------------------------------------------------------


def _function(name: str, node: Function, docstring: str | None) -> Iterator[str]:
    yield from _fenced(_signature(name, node))
    yield from [*as_markdown(docstring), ""]


def _signature(name: str, node: Function) -> list[str]:
    """The head of a function without `self`, on one line or with a line for each parameter."""
    parts = [each for each in _parts(node.args) if each not in {"self", "cls"}]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= LINE_LENGTH:
        return [line]
    return [f"{name}(", *(f"    {part}," for part in parts), f"){returns}"]


def _parts(arguments: ast.arguments) -> Iterator[str]:
    """The parameters of a function, each with its annotation and default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")


# -- classes --------------------------------------------------------------------------------------


def _class(name: str, value: type[Any]) -> Iterator[str]:
    """Constructor, docstring, documented fields, and public methods with those of its bases."""
    own = [each for each in value.__mro__ if each.__module__.partition(".")[0] == "midstep"]
    nodes = [_class_node(each) for each in own]
    fields = _fields(nodes, with_bare=is_dataclass(value))
    constructor = next(
        (each for node in nodes for each in _functions(node) if each.name == "__init__"), None
    )
    if constructor is not None and not fields:
        yield from _fenced(_signature(name, constructor))
    yield from [*as_markdown(value.__doc__), ""]
    yield from markdown.table(["field", "type", "default", "meaning"], fields)
    seen = {"__init__"}
    for node in nodes:
        for method in _functions(node):
            if method.name not in seen and not method.name.startswith("_"):
                seen.add(method.name)
                yield from [f"### {name}.{method.name}", ""]
                yield from _method(method)


def _method(node: Function) -> Iterator[str]:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        returns = ast.unparse(node.returns) if node.returns else "Any"
        yield from _fenced([f"{node.name}: {returns}"])
        yield from [*as_markdown(ast.get_docstring(node)), ""]
    else:
        yield from _function(node.name, node, ast.get_docstring(node))


def _functions(node: ast.ClassDef) -> list[Function]:
    """Methods and properties; setters and overloads repeat what is there."""
    functions = [each for each in node.body if isinstance(each, Function)]
    return [
        each
        for each in functions
        if not any(ast.unparse(d).endswith((".setter", "overload")) for d in each.decorator_list)
    ]


def _fields(
    nodes: list[ast.ClassDef], *, with_bare: bool = False
) -> list[tuple[str, str, str, str]]:
    """The public fields of a class and its bases: name, type, default, docstring.

    Args:
        nodes: the class and its bases.
        with_bare: also those without a docstring.
    """
    rows = {}
    for node in nodes:
        for field, following in zip(node.body, [*node.body[1:], None], strict=True):
            meaning = _text(following)
            if not isinstance(field, ast.AnnAssign) or not (meaning or with_bare):
                continue
            name = ast.unparse(field.target)
            if name.startswith("_") or name in rows:
                continue
            annotation = markdown.code(ast.unparse(field.annotation))
            rows[name] = (markdown.code(name), annotation, _default(field.value), meaning)
    return list(rows.values())


def _text(node: ast.stmt | None) -> str:
    """The text of a statement that is nothing but a string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(str(node.value.value))
    return ""


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    text = ast.unparse(value).removeprefix("field(default_factory=")
    return markdown.code(f"{text[:-1]}()" if text != ast.unparse(value) else text)


# -- sources --------------------------------------------------------------------------------------


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def _class_node(value: type[Any]) -> ast.ClassDef:
    return _node(value, ast.ClassDef)


def _function_node(value: Any) -> Function:
    return _node(inspect.unwrap(value), ast.FunctionDef)


def _node(value: Any, kind: type[Node]) -> Node:
    """Where a class or function is defined in the source of its module."""
    inside: list[ast.stmt] = _tree(value.__module__).body
    for part in value.__qualname__.split("."):
        node = next(each for each in inside if isinstance(each, Scope) and each.name == part)
        inside = node.body
    if not isinstance(node, kind):
        raise TypeError(f"{value.__qualname__} is defined as {type(node).__name__}")
    return node


def _value(value: Any) -> str:
    text = repr(value).replace("typing.", "")
    return text if " at 0x" not in text and len(text) < 4 * LINE_LENGTH else type(value).__name__


def _fenced(lines: list[str]) -> list[str]:
    return ["```text", *lines, "```", ""]
