"""`midstep influence`: which sequences of an update moved which answers, from a plan file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.output.screen import Screen
from midstep.cli.output.text_format import align_columns
from midstep.core import strict_json
from midstep.core.errors import ConfigError

__all__ = ["app"]

app = typer.Typer(
    help=(
        "Which sequences of an optimizer step moved which answers: sample, predict, check.\n\n"
        "A plan file (YAML or JSON) has two parts: [bold]runner[/bold] (checkpoint, prompt_set, …) "
        "and [bold]plan[/bold] (update, requests, …). docs/influence.md walks through one."
    ),
    epilog=(
        "Examples: [bold]midstep influence run plan.yaml[/bold] · "
        "[bold]midstep influence show outputs/influence/2026…_study[/bold] · "
        "[bold]midstep influence validate outputs/influence/2026…_study --rates 1e-4,1e-5[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_RUN_HELP = """Carry out a plan: sample U and E, predict every change, write a report.

A run that was interrupted goes on where it stood when the same plan is started again.

\b
A small plan:
  runner: {checkpoint: outputs/lm/step-100, prompt_set: arithmetic}
  plan:
    update:
      kind: update
      params: {batch_size_prompts: 16, completions_per_prompt: 8}
    requests:
      - {kind: evaluation, params: {batch_size_prompts: 20}}
      - kind: custom_sequence
        params: {prompt: "9+9=", response: "18"}
    validate_rates: [1.0e-4, 1.0e-5]
"""

_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.")]
_Folder = Annotated[Path, typer.Argument(help="Folder of a run: outputs/influence/<time>_<name>.")]


@app.command("run", help=_RUN_HELP, epilog="Example: midstep influence run plan.yaml")
def run(
    plan: Annotated[Path, typer.Argument(help="The plan: YAML or JSON.")],
    as_json: _Json = False,
) -> None:
    """Carry out a plan; see `_RUN_HELP` for what the user reads."""
    from midstep.influence.study.plan import read_plan
    from midstep.influence.study.results_file import read_results_json
    from midstep.influence.study.runner import FisherKernelRunner

    config, asked = read_plan(plan)
    results = FisherKernelRunner(config).run(asked)
    folder = results.directory
    if folder is None:
        raise ConfigError("the run wrote no folder; check 'outputs' in the plan's runner part")
    told = read_results_json(folder)
    if as_json:
        typer.echo(strict_json.dumps({"directory": str(folder), **_brief(told)}))
        return
    screen = Screen()
    _say_results(screen, told, request=None, top=3)
    screen.print_line(f"report: {folder / 'report.html'}")


@app.command("show", epilog="Example: midstep influence show outputs/influence/2026…_study --top 5")
def show(
    folder: _Folder,
    request: Annotated[
        str | None, typer.Option("--request", help="Only this request; all if left out.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Contributors of a sequence.")] = 5,
    as_json: _Json = False,
) -> None:
    """Show what a finished run found: predicted changes and who made them. Needs no torch."""
    from midstep.influence.study.results_file import read_results_json

    told = read_results_json(folder)
    if as_json:
        typer.echo(strict_json.dumps(told))
        return
    screen = Screen()
    _say_results(screen, told, request=request, top=top)
    if (folder / "report.html").is_file():
        screen.print_line(f"\nreport: {folder / 'report.html'}")
    screen.print_line(
        "The page of any live run with outputs/runs beside it shows this under Influence."
    )


@app.command("validate", epilog="Example: midstep influence validate outputs/influence/2026…_study")
def check(
    folder: _Folder,
    rates: Annotated[
        str | None,
        typer.Option("--rates", help="Learning rates to try: 1e-4,1e-5; four if left out."),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option("--request", help="Whose sequences; those of the update if left out."),
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option("--after", help="Checkpoint that training itself reached with this step."),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Check the prediction: true AdamW steps on copies of the model, at several learning rates.

    The relative error should fall in proportion to the learning rate (slope 1).
    """
    from midstep.influence.study.results_file import load_results
    from midstep.influence.study.runner import FisherKernelRunner
    from midstep.influence.study.validation import validate

    results = load_results(folder)
    runner = FisherKernelRunner(results.config)
    workspace = runner.load_workspace(folder / "workspace")
    batch = None if request is None else results.request(request).batch
    found = validate(workspace, batch, rates=_rates(rates), after=after).to_json()
    if as_json:
        typer.echo(strict_json.dumps(found))
        return
    _say_validation(Screen(), strict_json.plain(found))


def _rates(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--rates takes numbers with commas, 1e-4,1e-5; got {text!r}") from None


def _brief(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "requests": {
            one["name"]: {each["sequence_id"]: each["delta"] for each in one["sequences"]}
            for one in told["requests"]
        },
        "validation": told["validation"],
    }


def _say_results(screen: Screen, told: Mapping[str, Any], *, request: str | None, top: int) -> None:
    update = told["update"]
    screen.print_line(
        f"{told['name']}: {len(update['sequences'])} sequences of the update, optimizer step "
        f"{told['step']}, {told['plan']['preconditioner']}, η = {update['step']['lr']:.3g}"
    )
    names = [one["name"] for one in told["requests"]]
    if request is not None and request not in names:
        raise ConfigError(f"no request is called {request!r}; there are {', '.join(names)}")
    texts = {one["sequence_id"]: _text(one) for one in update["sequences"]}
    for one in told["requests"]:
        if request in (None, one["name"]):
            _say_request(screen, one, texts, top)
    if told["validation"]:
        _say_validation(screen, told["validation"])


def _say_request(
    screen: Screen, one: Mapping[str, Any], texts: Mapping[str, str], top: int
) -> None:
    screen.print_line(f"\n{one['name']}", style="bold")
    rows = [("sequence", "Δ log π", "log π", "text")]
    for each in one["sequences"]:
        rows.append(
            (
                each["sequence_id"],
                f"{float(each['delta']['total']):+.5f}",
                f"{float(each['logprob']):.3f}",
                _text(each),
            )
        )
        rows += [
            ("", f"{float(by['contribution']):+.5f}", "", f"by {by['sequence_id']} {who}")
            for by in each["contributors"][:top]
            for who in [texts[by["sequence_id"]]]
        ]
    for line in align_columns(rows, right=(1, 2)):
        screen.print_line(line)


def _text(one: Mapping[str, Any]) -> str:
    said = f"{str(one['prompt'])[-40:]}|{one['response']}"
    return " ".join(said.split())[:72]


def _say_validation(screen: Screen, told: Mapping[str, Any]) -> None:
    rows: list[Sequence[str]] = [
        ("η", "relative error", "correlation", "change of entropy", "predicted")
    ]
    rows += [
        (
            f"{float(one['lr']):.1e}",
            f"{100 * float(one['relative_error']):.3f} %",
            f"{float(one['correlation']):.6f}",
            f"{float(one['entropy_change']):+.3g}",
            f"{float(one['entropy_predicted']):+.3g}",
        )
        for one in told["rates"]
    ]
    screen.print_line("\npredicted against a true step", style="bold")
    for line in align_columns(rows, right=(0, 1, 2, 3, 4)):
        screen.print_line(line)
    if told["slope"] is not None:
        screen.print_line(f"slope of the error over η: {float(told['slope']):.3f} (1 is exact)")
    after = told.get("after")
    if after:
        screen.print_line(
            f"against {after['checkpoint']}: error {100 * float(after['relative_error']):.3f} %, "
            f"correlation {float(after['correlation']):.6f}"
        )
