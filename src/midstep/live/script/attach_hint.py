"""What `midstep run` cannot do, and the lines of code that can, with the names of the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from midstep.live.script.script_names import ScriptNames

LOCALS = "midstep run cannot reach the local variables of the script; use midstep.attach in it"
"""Why a script cannot go back or be resumed."""


def attach_hint(
    script: str,
    names: ScriptNames,
    roots: Mapping[str, nn.Module],
    tensors: Mapping[str, Any],
    optimizers: Sequence[Any],
) -> list[str]:
    """Lines to print: the three lines that would add going back and resuming.

    Args:
        script: its path or name.
        names: those of its variables.
        roots: the modules that it trains.
        tensors: what it trains without a module.
        optimizers: all of them, the first one that steps first.
    """
    if not roots or tensors:
        return [
            "going back and resuming need midstep.attach, and a torch.nn.Module that owns all that "
            f"{Path(script).name} trains; now no module owns {_shortened(tensors)}"
        ]
    first, *others = [names.optimizer_name(each) for each in optimizers]
    steppers = [first or "optimizer", *sorted(name for name in others if name)]
    loader, script_name = names.loader_name(), Path(script).name
    arguments = [_as_code(list(roots)), _as_code(steppers), *([loader] if loader else [])]
    arguments += _scheduler_arguments(names.scheduler_names())
    arguments += [f'run_name="{Path(script).stem}"', 'resume="auto"']
    loop = "for step in run.steps(number_of_steps):"
    if loader is not None:
        loop = "for epoch in run.epochs(number_of_epochs):"
    return [
        "going back and resuming need the local variables of a script, which are out of reach; "
        f"these lines in {script_name} add both:",
        "    import midstep",
        f"    with midstep.attach({', '.join(arguments)}) as run:",
        f"        {loop}",
        "if the next step also depends on something else, such as an environment, a replay buffer "
        "or a counter, declare it with extra_state= or run.keep",
    ]


def _scheduler_arguments(names: Sequence[str]) -> list[str]:
    """The argument of `attach` for one scheduler, or for several."""
    if len(names) == 1:
        return [f"scheduler={names[0]}"]
    return [f"extra_state={_as_code(names)}"] if names else []


def _as_code(names: Sequence[str]) -> str:
    """One name, or a dict of several."""
    if len(names) == 1:
        return names[0]
    return "{" + ", ".join(f'"{name}": {name}' for name in names) + "}"


def _shortened(names: Iterable[str]) -> str:
    few = list(names)
    return ", ".join(few[:3]) + (", …" if len(few) > 3 else "")
