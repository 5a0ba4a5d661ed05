"""The page of all commands of the terminal, from the parser that reads them."""

from __future__ import annotations

import re
import textwrap
from enum import Enum
from typing import Any, Literal, get_args, get_origin

import typer
from tools.references import markdown

from midstep.cli.main import app

ABOUT = """Every command of the terminal with its arguments and options, as `midstep COMMAND --help`
shows them. The how-to pages say what they are for: [Pause, step, stop](../how-to/control.md),
[List and compare runs](../how-to/compare-runs.md), [Run a script](../how-to/run-a-script.md)."""
CTL = "midstep ctl"
"""Its commands share options, which are listed once."""
_BOLD = re.compile(r"\[bold\](.*?)\[/bold\]")
_STYLE = re.compile(r"(?<!\\)\[/?(?:bold|dim|italic|underline)\]")
"""Tags that rich reads; any other bracket is text."""
_TAG = re.compile(r"<(?=[a-zA-Z/!])")


def page() -> str:
    """The page as Markdown."""
    return markdown.page("Commands of the terminal", ABOUT, _group("midstep", _root()))


def _root() -> Any:
    return typer.main.get_command(app)


def _group(words: str, group: Any, shared: frozenset[str] = frozenset()) -> list[str]:
    """A group and its commands; a group within it comes after the commands."""
    lines = [f"## {words}", "", _text(group.help), ""] if words != "midstep" else []
    if words == CTL:
        shared = frozenset.intersection(*(_names(each) for each in _leaves(group)))
        lines += ["", "Every command of this group and of the groups below has these options:"]
        lines += _options([each for each in _first(group).params if each.name in shared])
    elif words == "midstep":
        lines += _options(group.params)
    inner = sorted(group.commands.items(), key=lambda item: hasattr(item[1], "commands"))
    for name, command in inner:
        if hasattr(command, "commands"):
            lines += _group(f"{words} {name}", command, shared)
        else:
            level = "##" if words == "midstep" else "###"
            lines += _command(level, f"{words} {name}", command, shared)
    return lines


def _leaves(group: Any) -> list[Any]:
    leaves: list[Any] = []
    for each in group.commands.values():
        leaves += _leaves(each) if hasattr(each, "commands") else [each]
    return leaves


def _first(group: Any) -> Any:
    return _leaves(group)[0]


def _names(command: Any) -> frozenset[str]:
    return frozenset(each.name for each in command.params)


def _command(level: str, words: str, command: Any, shared: frozenset[str]) -> list[str]:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    own = [each for each in command.params if each not in arguments and each.name not in shared]
    usage = " ".join([words, *(["[OPTIONS]"] if own or shared else []), *map(_usage, arguments)])
    lines = [f"{level} {words}", "", "```text", usage, "```", "", _text(command.help), ""]
    lines += markdown.table(
        ["argument", "meaning"], [(markdown.code(_usage(each)), _about(each)) for each in arguments]
    )
    return lines + _options(own)


def _usage(argument: Any) -> str:
    name = (argument.metavar or argument.name).upper().removesuffix("...").strip("[]")
    name += "..." if argument.nargs == -1 else ""
    return name if argument.required else f"[{name}]"


def _options(options: list[Any]) -> list[str]:
    rows = [
        (_spelling(option), _about(option), _default(option))
        for option in options
        if not option.hidden
    ]
    return markdown.table(["option", "meaning", "default"], rows)


def _spelling(option: Any) -> str:
    names = ", ".join(markdown.code(name) for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    value = option.metavar or _value_name(option.type_descriptor.annotation)
    return f"{names} {markdown.code(value)}"


def _value_name(annotation: Any) -> str:
    """What a value looks like: its choices, or the name of its type.

    >>> _value_name(list[int]), _value_name(Literal["a", "b"]), _value_name(str)
    ('INT', 'a|b', 'TEXT')
    """
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if inner:
        return _value_name(inner[0])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(each.value) for each in annotation)
    return "TEXT" if annotation is str else str(annotation.__name__).upper()


def _default(option: Any) -> str:
    value = option.default
    if value is None or value is False or callable(value) or value in ((), []):
        return "required" if option.required else ""
    return markdown.code("on" if value is True else str(value))


def _about(parameter: Any) -> str:
    text = _text(getattr(parameter, "help", None))
    is_repeatable = getattr(parameter, "multiple", False) and "repeat" not in text
    return f"{text} May be repeated." if is_repeatable else text


def _text(text: str | None) -> str:
    r"""Help as Markdown.

    Bold words are commands. Each paragraph is one line, except one whose line breaks the terminal
    keeps (it begins with `\b`) or whose lines are all indented: that is a block.

    >>> print(_text("Run [bold]midstep\nctl[/bold] of 'midstep\\[data]' in <time>."))
    Run `midstep ctl` of 'midstep[data]' in &lt;time>.
    >>> print(_text("\b\n  pt    tensors\n  hdf5  one file"))
    ```text
    pt    tensors
    hdf5  one file
    ```
    """
    return "\n\n".join(_paragraph(each) for each in re.split(r"\n\s*\n", text or ""))


def _paragraph(text: str) -> str:
    lines = text.replace("\b", "").strip("\n").splitlines()
    if "\b" in text or (lines and all(line.startswith("  ") for line in lines)):
        block = textwrap.dedent("\n".join(lines))
        return f"```text\n{_without_tags(block)}\n```"
    parts = _BOLD.split(" ".join(text.split()))
    # A name such as <time> would be an HTML tag, and browsers do not show tags.
    parts[::2] = [_TAG.sub("&lt;", _without_tags(part)) for part in parts[::2]]
    parts[1::2] = [markdown.code(_without_tags(part)) for part in parts[1::2]]
    return "".join(parts)


def _without_tags(text: str) -> str:
    return _STYLE.sub("", text).replace("\\[", "[")
