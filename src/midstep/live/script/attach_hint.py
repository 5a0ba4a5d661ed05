"""What `midstep run` cannot do, and the lines of code that can, with the names of the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from midstep.live.script.program.script_command import ScriptCommand
    from midstep.live.script.script_names import Method, ScriptNames

LOCALS = "midstep run cannot reach the local variables of the script; use midstep.attach in it"
"""Why a script cannot go back or be resumed."""


def attach_hint(
    script: ScriptCommand,
    names: ScriptNames,
    roots: Mapping[str, nn.Module],
    tensors: Mapping[str, Any],
    optimizers: Sequence[Any],
    loader: Any,
) -> list[str]:
    """Lines to print: the three lines that would add going back and resuming.

    Args:
        script: the command that runs it.
        names: of its variables.
        roots: the modules that it trains.
        tensors: what it trains without a module.
        optimizers: all of them, the first one that steps first.
        loader: gave the batch of the first step; None if no variable holds one that did.
    """
    file = script.target if script.is_module else Path(script.target).name
    if not roots or tensors:
        return [
            "going back and resuming need midstep.attach, and a torch.nn.Module that owns all that "
            f"{file} trains; now no module owns {_shortened(tensors)}"
        ]
    first, *others = [
        (names.optimizer_name(each), names.optimizer_code(each)) for each in optimizers
    ]
    if first[0] is not None and first[1] is None:
        return [
            "going back and resuming need midstep.attach around a loop of the script; here a "
            f"library has the loop, the optimizer is not a variable of {file}"
        ]
    steppers = {first[0] or "optimizer": first[1] or "optimizer"}
    steppers |= {name: code for name, code in sorted(others, key=str) if name and code}
    modules = {name: names.code_of(each) or name for name, each in roots.items()}
    arguments = [_as_code(modules), _as_code(steppers)]
    codes = [*modules.values(), *steppers.values()]
    if loader is not None:
        codes.append(names.code_of(loader) or "loader")
        arguments.append(codes[-1])
    arguments += _declared(names)
    arguments += [f'run_name="{script.name}"', 'resume="auto"']
    loop = "for step in run.steps(number_of_steps):"
    if loader is not None:
        loop = "for epoch in run.epochs(number_of_epochs):"
    return [
        "going back and resuming need the local variables of a script, which midstep run cannot "
        f"reach; these lines in {_where(names.methods_of(codes), file)} add both:",
        "    import midstep",
        f"    with midstep.attach({', '.join(arguments)}) as run:",
        f"        {loop}",
        "if the next step also depends on something else, such as an environment, a replay buffer "
        "or a counter, declare it with extra_state= or run.keep",
    ]


def _where(methods: Sequence[Method], file: str) -> str:
    """Where the lines belong: in a method if they use `self`, which is unknown elsewhere."""
    if not methods:
        return file
    first, *others = methods
    words = f"the method {first.name} of {file}"
    if others:
        return f"{words} ({', '.join(f'{each.code} is that of {each.name}' for each in others)})"
    if first.variable is not None:  # the loop may be there, around a method that makes one step
        words += f", or around its call with {first.variable} in place of self,"
    return words


def _declared(names: ScriptNames) -> list[str]:
    """The arguments of `attach` for schedulers and for a scaler."""
    from torch.amp import GradScaler
    from torch.optim.lr_scheduler import LRScheduler

    schedulers, scalers = names.all_of(LRScheduler), names.all_of(GradScaler)
    extra: dict[str, str] = {}
    arguments = []
    for argument, parts in (("scheduler", schedulers), ("scaler", scalers)):
        if len(parts) == 1:
            arguments.append(f"{argument}={next(iter(parts.values()))}")
        else:
            extra |= parts
    return [*arguments, *([f"extra_state={_as_code(extra)}"] if extra else [])]


def _as_code(parts: Mapping[str, str]) -> str:
    """The code of one part, or a dict of several."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    return "{" + ", ".join(f"{_quoted(name)}: {code}" for name, code in parts.items()) + "}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', "'") + '"'


def _shortened(names: Iterable[str]) -> str:
    few = list(names)
    return ", ".join(few[:3]) + (", …" if len(few) > 3 else "")
