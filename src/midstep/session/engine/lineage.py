"""`lineage.json`: which timelines of a run branch off which, and what was changed there.

An edge of kind `timeline` is written when something is changed after a rewind. Until then the new
timeline repeats the same training. The edge says from which step it differs, and by what.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from midstep.core import strict_json
from midstep.core.errors import FormatError, StorageError
from midstep.core.files.storage import replace_json
from midstep.core.files.untrusted_files import read_plain
from midstep.facts import FactsReader
from midstep.facts.format.paths import LARGEST_LINEAGE_BYTES, LINEAGE
from midstep.facts.read.timelines import find_rewinds

log = logging.getLogger("midstep.session")
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
        """Record a change by the user in the edge of its timeline.

        If the disk refuses, this only logs a warning: the facts record the same change, and they
        park a run that cannot write them.
        """
        if timeline == 0:
            return  # the first timeline branches off nothing
        try:
            document = read_lineage(self._dir)
            edge = self._edge(document["edges"], timeline)
            edge["interventions"].append({"step": step, "kind": kind, **what})
            replace_json(self._dir / LINEAGE, document, mode=0o600)
        except (FormatError, StorageError) as error:
            log.warning("the lineage was not written: %s", error)

    def _edge(self, edges: list[dict[str, Any]], timeline: int) -> dict[str, Any]:
        """The edge of a timeline; a new one is made from the fact of the rewind."""
        for edge in edges:
            if edge["kind"] == "timeline" and edge["timeline"] == timeline:
                return edge
        rewinds = find_rewinds(FactsReader(self._dir).events())
        rewind = next((each for each in rewinds if each.timeline == timeline), None)
        edge = {
            "kind": "timeline",
            "timeline": timeline,
            "parents": [self._dir.name],
            "parent_timeline": None if rewind is None else rewind.parent,
            "step": None if rewind is None else rewind.step,
            "interventions": [],
        }
        edges.append(edge)
        return edge


def read_lineage(run_dir: str | Path) -> dict[str, Any]:
    """The lineage of a run directory; without edges if there is no file.

    Raises:
        FormatError: the file is damaged, or of an unknown version.
    """
    path = Path(run_dir) / LINEAGE
    try:
        document = strict_json.loads(read_plain(path, LARGEST_LINEAGE_BYTES))
    except FileNotFoundError:
        return {"version": _VERSION, "edges": []}
    except (OSError, FormatError) as error:
        raise FormatError(f"{path} cannot be read: {error}; move it away to continue") from None
    if not isinstance(document, Mapping) or document.get("version") != _VERSION:
        raise FormatError(f"{path} has an unknown version; move it away to continue")
    return dict(document)
