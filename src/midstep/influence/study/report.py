"""report.html: one file with all results, readable without network and scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from midstep.influence.study.charts import heatmap, histogram, scatter
from midstep.influence.study.results import FisherKernelResults
from midstep.influence.study.results_file import check_types

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24}
h1,h2,h3{line-height:1.2}table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{border-bottom:1px solid #d8dee4;padding:.25rem .5rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
pre{white-space:pre-wrap;margin:0;font:12px/1.4 ui-monospace,monospace}
figure{display:inline-block;margin:.5rem 1rem .5rem 0;vertical-align:top}
figcaption{font-size:12px;color:#57606a}svg{width:420px;max-width:100%}
svg rect,svg circle{fill:#2f6feb;fill-opacity:.75}svg line{stroke:#8b949e;stroke-dasharray:4}
svg text{font-size:11px;fill:#57606a}.heat{image-rendering:pixelated;min-width:160px}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}td,th{border-color:#30363d}}
"""
_NUMBER_CLASS = ' class="n"'
MAX_SHOWN = 12
"""How many sequences of a request are shown with contributors: those with the largest change."""


def report_html(document: Mapping[str, Any], results: FisherKernelResults) -> str:
    """The page for `document` (the content of results.json) with the arrays of `results`."""
    parts = [
        f"<h1>Influence: {escape(str(document['name']))}</h1>",
        _summary(document),
        _update(document, results),
        *(
            _request(one, result, document["update"]["sequences"])
            for one, result in zip(document["requests"], results.requests, strict=True)
        ),
        _validation(document["validation"]),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Influence: {escape(str(document['name']))}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _summary(document: Mapping[str, Any]) -> str:
    step = document["update"]["step"]
    rows = [
        ("checkpoint", document["config"].get("checkpoint", "")),
        ("optimizer step", document["step"]),
        ("preconditioner", document["plan"]["preconditioner"]),
        ("learning rate", _number(step["lr"])),
        ("gradient norm, clip factor", f"{_number(step['gradient_norm'])}, {step['clip_factor']}"),
        ("planner", document["update"]["notes"].get("algorithm", "")),
    ]
    return _table(("", ""), [[_cell(str(name)), _cell(str(value))] for name, value in rows])


def _update(document: Mapping[str, Any], results: FisherKernelResults) -> str:
    update = document["update"]
    sequences = update["sequences"]
    coverage = sorted(update["coverage"].items(), key=lambda pair: -pair[1])
    return "".join(
        [
            f"<h2>The update: {len(sequences)} sequences</h2>",
            heatmap(results.workspace.kernel_uu.tolist(), title="K(U,U)"),
            histogram([one["advantage"] or 0.0 for one in sequences], title="advantages"),
            histogram([one["norm"] for one in sequences], title="norms sqrt(g·D·g)"),
            "<h3>Share of the trace by parameter</h3>",
            _table(
                ("parameters", "share of the trace"),
                [[_cell(name), _right_aligned(f"{100 * share:.1f} %")] for name, share in coverage],
            ),
        ]
    )


def _request(one: Mapping[str, Any], result: Any, update: Sequence[Mapping[str, Any]]) -> str:
    by_id = {sequence["sequence_id"]: sequence for sequence in update}
    moved = sorted(one["sequences"], key=lambda each: -abs(float(each["delta"]["total"])))
    parts = [f"<h2>Request {escape(one['name'])}: {len(one['sequences'])} sequences</h2>"]
    if result.kernel_eu is not None:
        parts.append(heatmap(result.kernel_eu.tolist(), title="K(E,U)"))
    parts.append(histogram(result.delta["total"].tolist(), title="predicted Δ log π (nats)"))
    head = ("sequence", "prompt … response", "log π", "Δ log π", "kernel", "momentum", "decay")
    rows = [
        [
            _cell(each["sequence_id"]),
            f"<td>{_text(each)}</td>",
            *_number_cells(each, "logprob"),
            *_number_cells(each["delta"], "total", "kernel", "momentum", "decay"),
        ]
        for each in moved
    ]
    parts.append(_table(head, rows))
    parts += [_contributors(each, by_id) for each in moved[:MAX_SHOWN] if each["contributors"]]
    return "".join(parts)


def _contributors(one: Mapping[str, Any], update: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        [
            _cell(each["sequence_id"]),
            f"<td>{_text(update[each['sequence_id']])}</td>",
            *_number_cells(each, "contribution", "advantage", "cosine"),
        ]
        for each in one["contributors"]
    ]
    return (
        f"<h3>Who moved {escape(one['sequence_id'])} by {_number(one['delta']['total'])}</h3>"
        f"{_text(one)}"
        + _table(("sequence", "prompt … response", "nats", "advantage", "cosine"), rows)
    )


def _validation(validation: Mapping[str, Any] | None) -> str:
    if not validation:
        return ""
    shown = ("lr", "relative_error", "correlation", "entropy_change", "entropy_predicted")
    rows = [_number_cells(one, *shown) for one in validation["rates"]]
    slope = ""
    if validation["slope"] is not None:
        slope = f" Slope of the error: {_number(validation['slope'])}."
    best = min(validation["rates"], key=lambda one: float(one["lr"]))
    return "".join(
        [
            "<h2>Predicted against actual</h2><p>A true step of a copy of the optimizer, on "
            f"{escape(check_types(validation))}.{slope}</p>",
            scatter(
                [float(value) for value in best["predicted"]],
                [float(value) for value in best["actual"]],
                title=f"predicted (across) and actual (up) Δ log π at η = {_number(best['lr'])}",
                names=validation["sequence_ids"],
            ),
            _table(("η", "relative error", "correlation", "change of entropy", "predicted"), rows),
        ]
    )


def _text(one: Mapping[str, Any]) -> str:
    prompt = str(one["prompt"])
    # The end of a prompt is its question; the beginning is often a template.
    shown = prompt if len(prompt) <= 160 else "… " + prompt[-160:]
    return f"<pre>{escape(shown)}<b>{escape(str(one['response'])[:400])}</b></pre>"


def _number(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return "–"


def _number_cells(values: Mapping[str, Any], *names: str) -> list[str]:
    return [_right_aligned(_number(values[name])) for name in names]


def _right_aligned(text: str) -> str:
    return f"<td{_NUMBER_CLASS}>{escape(text)}</td>"


def _cell(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of whole cells. A column is headed on the side to which its cells are aligned."""
    rows = list(rows)
    first = rows[0] if rows else []
    numbers = {at for at, cell in enumerate(first) if cell.startswith(f"<td{_NUMBER_CLASS}")}
    top = "".join(
        f"<th{_NUMBER_CLASS if at in numbers else ''}>{escape(name)}</th>"
        for at, name in enumerate(head)
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
