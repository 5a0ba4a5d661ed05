"""Where a run comes from: `lineage.json`, its edges and what was done to it on the way.

An edge of kind `timeline` is named once something was changed after a rewind: from then on the run
is another one than it was, and the file says from which step, and by what.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midstep.core.errors import FormatError, StorageError
from midstep.core.files.storage import replace_json
from midstep.facts import FactsReader
from midstep.facts.read.timelines import find_rewinds

__all__ = ["FILE", "Lineage", "read_lineage"]

log = logging.getLogger("midstep.session")
FILE = "lineage.json"
_VERSION = 1


class Lineage:
    """Writes the lineage of one run directory; each write replaces the file as a whole.

    >>> import tempfile
    >>> from midstep.facts import FactsWriter
    >>> with FactsWriter(folder := tempfile.mkdtemp(), timeline=1) as facts:
    ...     _ = facts.event("on_intervention", kind="rewind", step=5, from_step=9, parent=0)
    >>> Lineage(Path(folder)).changed(timeline=1, step=5, kind="hparams", lr=0.1)
    >>> read_lineage(folder)["edges"][0]["parent_timeline"]
    0
    """

    def __init__(self, run_dir: Path) -> None:
        self._dir = run_dir

    def changed(self, *, timeline: int, step: int, kind: str, **what: Any) -> None:
        """Something was changed by hand; after a rewind that names the timeline.

        A disk that refuses stops nothing here: the same stands in the facts, which hold a run that
        cannot write them.
        """
        if timeline == 0:
            return  # no edge: the run is still its own beginning
        try:
            document = read_lineage(self._dir)
            edge = self._edge(document["edges"], timeline)
            edge["interventions"].append({"step": step, "kind": kind, **what})
            replace_json(self._dir / FILE, document)
        except (FormatError, StorageError) as error:
            log.warning("the lineage was not written: %s", error)

    def _edge(self, edges: list[dict[str, Any]], timeline: int) -> dict[str, Any]:
        """The edge of a timeline; made from the rewind's own record where there is none yet."""
        for edge in edges:
            if edge["kind"] == "timeline" and edge["timeline"] == timeline:
                return edge
        rewinds = find_rewinds(FactsReader(self._dir).events())
        found = next((each for each in rewinds if each.timeline == timeline), None)
        made: dict[str, Any] = {
            "kind": "timeline",
            "timeline": timeline,
            "parents": [self._dir.name],
            "parent_timeline": None if found is None else found.parent,
            "step": None if found is None else found.step,
            "interventions": [],
        }
        edges.append(made)
        return made


def read_lineage(run_dir: str | Path) -> dict[str, Any]:
    """The lineage of a run directory; one without edges where there is no file.

    Raises:
        FormatError: if the file is none of ours.
    """
    path = Path(run_dir) / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"version": _VERSION, "edges": []}
    except (OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error}; move it away to go on") from None
    if not isinstance(found, Mapping) or found.get("version") != _VERSION:
        raise FormatError(f"{path} is of no version that is known here; move it away to go on")
    return dict(found)
