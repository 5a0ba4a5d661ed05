"""`attach`: makes a training loop of the user stoppable and visible, without rewriting it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from midstep.core.errors import ConfigError
from midstep.live.attached_run import AttachedRun
from midstep.live.mode import current_mode
from midstep.session.state.extra_state import ExtraState
from midstep.session.state.training_parts import TrainingParts, as_model, as_optimizers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from torch import nn
    from torch.optim import Optimizer

    from midstep.control import DebugController
    from midstep.data.order.order_strategy import OrderPolicy
    from midstep.facts.index.labels import Labels
    from midstep.session import OnError
    from midstep.session.config import Resume


def attach(
    model: nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module],
    optimizer: Optimizer | Mapping[str, Optimizer] | Sequence[Optimizer],
    loader: Iterable[Any] | None = None,
    *,
    scheduler: Any = None,
    scaler: Any = None,
    loss_fn: Any = None,
    extra_state: Mapping[str, Any] | None = None,
    config: Any = None,
    tags: Sequence[str] = (),
    notes: str = "",
    git_diff: bool = True,
    console: bool = True,
    evidence: bool = True,
    view: Any = None,
    total_steps: int | None = None,
    mirror: Sequence[str] = (),
    name: str | None = None,
    save_dir: str | Path = "outputs/runs",
    run_name: str | None = None,
    serve: bool = False,
    port: int | None = None,
    start_paused: bool = False,
    on_error: OnError | None = None,
    controller: DebugController | None = None,
    resume: Resume = "never",
    allow_changed: Sequence[str] = (),
    data_order_policy: OrderPolicy = "user",
    seed: int | None = None,
    checkpoint_every_steps: int | None = None,
    checkpoint_keep: int = 10,
    rewind_steps: int = 64,
    rewind_bytes: int | None = None,
) -> AttachedRun:
    """Make a plain training loop stoppable, steppable and visible inside a `with` block.

    Where no block fits: `run = attach(…).start()`. It ends with `run.close()`, or with the script.

    In the main thread SIGTERM and SIGHUP stop the run at the next step boundary, with a complete
    record and exit code 0, unless you handle them yourself. A second signal ends the process. If
    the checkpoint of a stop could not be written, also of one by a command or the page, the process
    ends with exit code 1 and the reason.

    Args:
        model: the module in training, or several in a dict or list; their parameters can be
            watched. Those of `{"D": net}` are called `D.…`.
        optimizer: one, or several in a dict or list; a step of the first one counts as a step.
        loader: what the loop iterates over. It is patched in place until the block ends. Leave it
            out if there is none, and loop over `run.steps(n)`.
        scheduler: if given, every snapshot holds it; if not, going back does not reset it.
        scaler: as `scheduler`.
        loss_fn: the loss: a module, or a function that you call as `run.loss(output, target)`. Then
            the page shows the loss of each sample. Without it, log the loss.
        extra_state: further objects of the training by name, such as an average of the weights:
            anything with `state_dict` and `load_state_dict`, arrays and tensors, or two functions
            `(get, set)`. Every snapshot holds them. For environments: `midstep.env_state`.
        config: settings of the training for the record, such as `vars(args)`: a dict, Namespace,
            dataclass or OmegaConf config. Nothing is read from it. Texts whose name says that they
            are secret, such as `api_key`, are masked.
        tags: of the run, to find it again; they can be changed later.
        notes: about the run, in words; as `tags`.
        git_diff: keep how the tracked files of the git repository differ from the commit, in a file
            of the run directory that only you can read (at most 1 MiB).
        console: keep what the script prints, in a file of the run directory that only you can read.
            The environment variable MIDSTEP_CONSOLE=off switches it off, too.
        evidence: keep the shown samples, layers and breakpoints of each stop and of the end in the
            run directory, so that the page shows them when the run is over.
        view: how samples are shown: `midstep.view(…)`, a tokenizer, or a function from token ids
            to text. Without it, it is guessed from the batch.
        total_steps: of the training, for the progress shown, where the loop cannot know.
        mirror: trackers whose scalars are recorded too: `tensorboard`, `wandb`, `trainer`.
        name: of the run; the script's name if left out.
        save_dir: where run directories are made.
        run_name: exactly `save_dir/run_name`. If it holds a run already, it is refused, unless
            that run is resumed.
        serve: serve the page, and print its address on standard error.
        port: of the page; a free one if left out.
        start_paused: pause before the first step.
        on_error: `park` or `raise`; see `Run`.
        controller: your own, for breakpoints set before the first step.
        resume: `auto` continues from the newest checkpoint of `run_name`, also in the middle of an
            epoch, if the loop is `for epoch in run.epochs(n)` or `for step in run.steps(n)`; `must`
            needs a checkpoint.
        allow_changed: fields that may differ from the checkpoint, such as `("optimizer",)` after
            the learning rate was edited. The facts record each; see docs/how-to/resume.md.
        data_order_policy: `user` leaves the order alone, the others seed it; see
            docs/reference/exact-resume.md.
        seed: of a seeded order; nothing else is seeded here.
        checkpoint_every_steps: take a checkpoint after every so many steps, besides those at
            pauses, epoch ends and the end.
        checkpoint_keep: how many checkpoints to keep.
        rewind_steps: how many steps the run can go back, inside the epoch; 0 for none.
        rewind_bytes: host memory for that; a tenth of what is free if left out.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> loader = torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=4)
    >>> with attach(model, optimizer, loader, save_dir=tempfile.mkdtemp()) as run:
    ...     for epoch in run.epochs(2):
    ...         for x in loader:
    ...             loss = model(x).square().mean(); loss.backward()
    ...             optimizer.step(); optimizer.zero_grad(); run.log(loss=loss)
    >>> run.step
    4
    """
    from midstep.control.samples.view_check import checked_view
    from midstep.session.config import SessionConfig

    optimizers, names = as_optimizers(optimizer)
    parts = TrainingParts(
        model=as_model(model),
        optimizers=optimizers,
        names_in_dict=names,
        train_loader=loader,
        scheduler=scheduler,
        scaler=scaler,
        loss_fn=loss_fn,
        extra_state=ExtraState(extra_state),
    )
    _check_total(total_steps)
    labels = _make_labels(tags, notes)
    settings = SessionConfig(
        run_name=run_name,
        save_dir=save_dir,
        seed=seed,
        data_order_policy=data_order_policy,
        enforce_sampler_state=False,
        checkpoint_every_steps=checkpoint_every_steps,
        checkpoint_keep=checkpoint_keep,
        resume=resume,
        allow_changed=_as_fields(allow_changed),
        rewind_steps=rewind_steps,
        rewind_bytes=rewind_bytes,
        console=console,
        evidence=evidence,
    )
    return AttachedRun(
        parts,
        settings,
        given_config=config,
        labels=labels,
        view=checked_view(view),
        git_diff=git_diff,
        total_steps=total_steps,
        mode=current_mode(),
        mirror=mirror,
        name=name or _script_name(),
        on_error=on_error,
        serve=serve,
        port=port,
        controller=controller,
        start_paused=start_paused,
    )


def _make_labels(tags: Sequence[str], notes: str) -> Labels:
    from midstep.facts.index.labels import Labels

    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise ConfigError(f'tags must be a list of texts, got {tags!r}; write tags=["{tags}"]')
    if not isinstance(notes, str):
        raise ConfigError(f"notes must be a text, got {type(notes).__name__}")
    return Labels(tags=tuple(tags), note=notes)


def _as_fields(allow_changed: Sequence[str]) -> tuple[str, ...]:
    # One text is one field; its letters would be taken for several.
    return (allow_changed,) if isinstance(allow_changed, str) else tuple(allow_changed)


def _check_total(total_steps: int | None) -> None:
    if total_steps is not None and (not isinstance(total_steps, int) or total_steps < 1):
        raise ConfigError(f"total_steps must be a positive number, got {total_steps!r}")


def _script_name() -> str:
    stem = Path(sys.argv[0]).stem.strip("-._") if sys.argv else ""
    return stem or "run"
