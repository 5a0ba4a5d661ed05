"""How a run shows itself in a notebook, and how its page is opened from there.

Whatever a cell prints or displays is stored in the notebook's file, which people share. So nothing
here contains the token of the page: the displayed link leads to the page without it.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from midstep.core.errors import ConfigError

LINK_COMMAND = "midstep ctl link"
_CARD = (
    "font:13px/1.6 system-ui,sans-serif;border:1px solid #8886;border-radius:6px;"
    "padding:8px 12px;max-width:560px"
)
_BAR = "height:4px;margin:4px 0;border-radius:2px;background:#8883"
_DONE = "height:4px;border-radius:2px;background:#3b5bdb"
_PALE = "opacity:0.75"


def is_in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def page_notice(url: str) -> str:
    """What is printed about the page: its link, or in a notebook how to get the link."""
    if not is_in_notebook():
        return f"page {url}"
    return f"page {base_of(url)}; run.open_page() opens it, `{LINK_COMMAND}` prints its link"


def base_of(url: str) -> str:
    """The address of a page without its token.

    >>> base_of("http://127.0.0.1:8765/#token=abc")
    'http://127.0.0.1:8765/'
    """
    return url.partition("#")[0]


def open_in_browser(url: str | None) -> None:
    """Open the page with its token in the browser of the machine that trains.

    Raises:
        ConfigError: there is no page, or no browser.
    """
    if url is None:
        raise ConfigError("this run serves no page; pass serve=True to midstep.attach")
    if not webbrowser.open(url):
        raise ConfigError(
            f"this machine has no browser to open; `{LINK_COMMAND}` in a terminal prints the link"
        )


def mime_bundle(
    state: Mapping[str, Any], *, name: str, directory: Path | None, url: str | None
) -> dict[str, str]:
    """A run as text and as HTML, for `_repr_mimebundle_`.

    Args:
        state: of its controller.
        name: of the run.
        directory: where it is recorded; None if it is switched off.
        url: of its page; None if it serves none.

    >>> state = {"state": "paused", "step": 3, "total_steps": 10, "loss": 0.25}
    >>> bundle = mime_bundle(state, name="a <b>", directory=Path("runs/a"), url="http://h/#token=x")
    >>> bundle["text/plain"]
    'a <b>: paused · step 3 of 10 · loss 0.25 · runs/a · http://h/'
    >>> "token=x" in bundle["text/html"], "a &lt;b&gt;" in bundle["text/html"]
    (False, True)
    """
    facts, shown = _facts(state), None if directory is None else str(relative(directory))
    links = [each for each in (shown, url and base_of(url)) if each]
    text = f"{name}: {' · '.join([*facts, *links])}"
    return {"text/plain": text, "text/html": _html(name, facts, _share(state), shown, url)}


def relative(path: Path) -> Path:
    """`path` as one would type it in this directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _facts(state: Mapping[str, Any]) -> list[str]:
    """State, progress and last loss in words."""
    words = [str(state["state"]), f"step {_count_of(state['step'], state.get('total_steps'))}"]
    if state.get("epoch") is not None:
        total = state.get("total_epochs")
        words.append(f"epoch {_count_of(min(state['epoch'] + 1, total or sys.maxsize), total)}")
    loss = state.get("loss")
    if isinstance(loss, int | float):
        words.append(f"loss {loss:.4g}")
    return words


def _count_of(count: int, total: int | None) -> str:
    return f"{count:,} of {total:,}" if total else f"{count:,}"


def _share(state: Mapping[str, Any]) -> float | None:
    """How much of the training is done, from 0 to 1; None if nobody knows."""
    total = state.get("total_steps")
    return min(state["step"] / total, 1.0) if total else None


def _html(
    name: str, facts: list[str], share: float | None, directory: str | None, url: str | None
) -> str:
    lines = [f"<b>{escape(name)}</b> {escape(' · '.join(facts))}"]
    if share is not None:
        done = f'<div style="{_DONE};width:{100 * share:.1f}%"></div>'
        lines.append(f'<div style="{_BAR}">{done}</div>')
    if directory is not None:
        lines.append(f'<div style="{_PALE}">{escape(directory)}</div>')
    if url is not None:
        link = f'<a href="{escape(base_of(url))}" target="_blank">page</a>'
        ways = f"<code>run.open_page()</code>, or <code>{LINK_COMMAND}</code> in a terminal"
        lines.append(f'<div>{link} <span style="{_PALE}">(its token: {ways})</span></div>')
    return f'<div style="{_CARD}">{"".join(lines)}</div>'
