"""`midstep influence`: which sequences of an update moved which answers, from a plan file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from midstep.cli.output.screen import AsJson, Screen, print_json
from midstep.core import strict_json
from midstep.core.errors import ConfigError

app = typer.Typer(
    help=(
        "Which sequences of an optimizer step moved which answers: sample, predict, check.\n\n"
        "A plan file (YAML or JSON) has two parts: [bold]runner[/bold] (checkpoint, prompt_set, …) "
        "and [bold]plan[/bold] (update, requests, …). "
        "docs/how-to/explain-an-update.md explains one."
    ),
    epilog=(
        "Examples: [bold]midstep influence run plan.yaml[/bold] · "
        "[bold]midstep influence show outputs/influence/2026…_study[/bold] · "
        "[bold]midstep influence validate outputs/influence/2026…_study --rates 1e-4,1e-5[/bold]"
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_RUN_HELP = """Execute a plan: sample sequences, predict every change, write a report.

An interrupted run continues when the same plan is started again.

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

_Folder = Annotated[Path, typer.Argument(help="Folder of a run: outputs/influence/<time>_<name>.")]


@app.command("run", help=_RUN_HELP, epilog="Example: midstep influence run plan.yaml")
def run(
    plan: Annotated[Path, typer.Argument(help="The plan: YAML or JSON.")],
    as_json: AsJson = False,
) -> None:
    """Execute a plan; `_RUN_HELP` is what the user reads."""
    from midstep.influence.study.plan import read_plan
    from midstep.influence.study.results_file import read_results_json
    from midstep.influence.study.runner import FisherKernelRunner

    config, requested = read_plan(plan)
    folder = FisherKernelRunner(config).run(requested).directory
    if folder is None:
        raise ConfigError("the run wrote no folder; check 'outputs' in the plan's runner part")
    # Read back from disk, so that `run` and `show` print the same.
    results = read_results_json(folder)
    if as_json:
        print_json({"directory": str(folder), **_brief(results)})
        return
    screen = Screen()
    _print_results(screen, results, request=None, top=3)
    screen.print_line(f"report: {folder / 'report.html'}")


@app.command("show", epilog="Example: midstep influence show outputs/influence/2026…_study --top 5")
def show(
    folder: _Folder,
    request: Annotated[str | None, typer.Option(help="Only this request; all if left out.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Contributors per sequence.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show the results of a finished run: predicted changes and their contributors. No torch."""
    from midstep.influence.study.results_file import read_results_json

    results = read_results_json(folder)
    if as_json:
        print_json(results)
        return
    screen = Screen()
    _print_results(screen, results, request=request, top=top)
    if (folder / "report.html").is_file():
        screen.print_line(f"\nreport: {folder / 'report.html'}")
    screen.print_line("The page of a run in outputs/runs shows this under Influence.")


@app.command("validate", epilog="Example: midstep influence validate outputs/influence/2026…_study")
def check(
    folder: _Folder,
    rates: Annotated[
        str | None, typer.Option(help="Learning rates to check: 1e-4,1e-5; four if left out.")
    ] = None,
    request: Annotated[
        str | None, typer.Option(help="Check its sequences; those of the update if left out.")
    ] = None,
    after: Annotated[
        Path | None, typer.Option(help="Checkpoint that the training wrote after this step.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the prediction: true steps of a copy of the optimizer, at several learning rates.

    The relative error should fall in proportion to the learning rate (slope 1).
    """
    from midstep.influence.study.results_file import load_results
    from midstep.influence.study.runner import FisherKernelRunner
    from midstep.influence.study.validation import validate

    results = load_results(folder)
    runner = FisherKernelRunner(results.config)
    workspace = runner.load_workspace(folder / "workspace")
    batch = None if request is None else results.request(request).batch
    report = validate(workspace, batch, rates=_parse_rates(rates), after=after).to_json()
    if as_json:
        print_json(report)
        return
    _print_validation(Screen(), strict_json.plain(report))


def _parse_rates(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--rates takes numbers such as 1e-4,1e-5; got {text!r}") from None


def _brief(results: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "requests": {
            one["name"]: {each["sequence_id"]: each["delta"] for each in one["sequences"]}
            for one in results["requests"]
        },
        "validation": results["validation"],
    }


def _print_results(
    screen: Screen, results: Mapping[str, Any], *, request: str | None, top: int
) -> None:
    update = results["update"]
    screen.print_line(
        f"{results['name']}: {len(update['sequences'])} sequences of the update, optimizer step "
        f"{results['step']}, {results['plan']['preconditioner']}, η = {update['step']['lr']:.3g}"
    )
    names = [one["name"] for one in results["requests"]]
    if request is not None and request not in names:
        raise ConfigError(f"there is no request {request!r}; there are {', '.join(names)}")
    texts = {one["sequence_id"]: _text(one) for one in update["sequences"]}
    for one in results["requests"]:
        if request in (None, one["name"]):
            _print_request(screen, one, texts, top)
    if results["validation"]:
        _print_validation(screen, results["validation"])


def _print_request(
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
    screen.print_table(rows, right=(1, 2))


def _text(one: Mapping[str, Any]) -> str:
    text = f"{str(one['prompt'])[-40:]}|{one['response']}"
    return " ".join(text.split())[:72]


def _print_validation(screen: Screen, report: Mapping[str, Any]) -> None:
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
        for one in report["rates"]
    ]
    from midstep.influence.study.results_file import check_types

    screen.print_line("\npredicted against a true step", style="bold")
    screen.print_line(f"a copy of the optimizer, on {check_types(report)}")
    screen.print_table(rows, right=range(5))
    if report["slope"] is not None:
        screen.print_line(f"slope of the error over η: {float(report['slope']):.3f} (1 is exact)")
    after = report.get("after")
    if after:
        screen.print_line(
            f"against {after['checkpoint']}: error {100 * float(after['relative_error']):.3f} %, "
            f"correlation {float(after['correlation']):.6f}"
        )
