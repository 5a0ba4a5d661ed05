"""What a stop showed, as routes answer it. Files of a run directory may be somebody else's.

Everything is checked against the schemas of the answers: a damaged part counts as one that was not
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from midstep.control.panels import PanelKind
from midstep.facts.format.stop_files import (
    BATCH,
    StopName,
    data_part,
    picture_part,
    sample_part,
)
from midstep.facts.read.stop_evidence import KeptStop, read_stop, read_stops
from midstep.facts.read.timelines import Rewind, path_of
from midstep.server.debug.breakpoint_schemas import BreakpointOut, Evidence
from midstep.server.problems import Refusal
from midstep.server.step_views.step_schemas import BatchOut, SampleOut, StepDataOut

__all__ = [
    "KeptBreakpoint",
    "KeptStep",
    "KeptStops",
    "checked",
    "is_on_path",
    "named_step",
    "newest_step",
    "read_stops",
]
PNG = b"\x89PNG\r\n\x1a\n"
CONSOLE, TRAJECTORIES = "console.txt", "trajectories.json"
NO_STOP = "Nothing is kept of this stop. GET …/evidence lists the stops."
_KINDS = frozenset(PanelKind.__args__)  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class KeptBreakpoint:
    """A breakpoint as it was at a stop."""

    id: int
    fields: Mapping[str, Any]

    def describe(self) -> dict[str, Any]:
        """The fields of `BreakpointOut`."""
        return dict(self.fields)


class KeptStep:
    """One stop.

    Args:
        stop: its file.
    """

    def __init__(self, stop: KeptStop) -> None:
        self.stop, self.id = stop, stop.id
        self.step, self.timeline = stop.name.step, stop.name.timeline
        self._manifest = stop.manifest

    # -- the manifest -----------------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        """A text of the manifest."""
        value = self._manifest.get(name)
        return value if isinstance(value, str) else None

    def integer(self, name: str) -> int | None:
        """A whole number of the manifest."""
        value = self._manifest.get(name)
        return value if type(value) is int and abs(value) < 2**53 else None

    @property
    def has_batch(self) -> bool:
        """Whether samples were kept."""
        return BATCH in self.stop.parts and self.integer("batch_step") is not None

    @property
    def entries(self) -> dict[str, tuple[int, PanelKind | None]]:
        """The keys of the step data, with their positions and panels."""
        listed = self._manifest.get("step_data")
        entries: dict[str, tuple[int, PanelKind | None]] = {}
        for position, entry in enumerate(listed if isinstance(listed, list) else ()):
            key = entry.get("key") if isinstance(entry, dict) else None
            if isinstance(key, str) and data_part(position) in self.stop.parts:
                panel = entry.get("panel")
                entries.setdefault(key, (position, panel if panel in _KINDS else None))
        return entries

    def breakpoints(self) -> list[KeptBreakpoint]:
        """The breakpoints with their hits, as they were then."""
        listed = self._manifest.get("breakpoints")
        described = (checked(BreakpointOut, each) for each in _items(listed))
        return [KeptBreakpoint(id=each["id"], fields=each) for each in described if each]

    def evidence(self) -> dict[str, Any] | None:
        """The evidence of the breakpoint that stopped the run here."""
        return checked(Evidence, self._manifest.get("breakpoint"))

    def not_kept(self) -> dict[str, str]:
        """What was not kept, with the reason."""
        reasons = self._manifest.get("not_kept")
        pairs = reasons.items() if isinstance(reasons, dict) else ()
        return {str(what): why for what, why in pairs if isinstance(why, str)}

    def watched(self) -> dict[str, Any]:
        """Source, watched rows, and rows of other sources; empty where the manifest is damaged."""
        watches = self._manifest.get("watches")
        watches = watches if isinstance(watches, dict) else {}
        others, source = watches.get("others"), watches.get("source")
        return {
            "source": source if isinstance(source, str) else None,
            "feature_ids": _rows(watches.get("feature_ids")),
            "others": {
                str(name): _rows(rows)
                for name, rows in (others.items() if isinstance(others, dict) else ())
            },
        }

    def state_fields(self) -> dict[str, Any]:
        """The fields of `StateOut` about what is shown of the step."""
        entries = self.entries
        return {
            "has_batch": self.has_batch,
            "batch_step": self.integer("batch_step") if self.has_batch else None,
            "step_data_keys": list(entries),
            "step_data_step": self.step if entries else None,
            "step_data_panels": {key: panel for key, (_, panel) in entries.items() if panel},
        }

    # -- parts ------------------------------------------------------------------------------------

    def batch(self) -> dict[str, Any] | None:
        """The fields of `BatchOut`."""
        return checked(BatchOut, self.stop.read_json(BATCH)) if self.has_batch else None

    def picture(self, layer: str) -> bytes | None:
        """The picture of the samples."""
        return self._png(picture_part(layer))

    def sample(self, index: int) -> dict[str, Any] | None:
        """The fields of `SampleOut`."""
        return checked(SampleOut, self.stop.read_json(sample_part(index, "json")))

    def sample_picture(self, index: int, layer: str) -> bytes | None:
        """The picture of one sample at full resolution."""
        return self._png(sample_part(index, "png", layer))

    def sample_numbers(self, index: int) -> bytes | None:
        """The numbers of one sample as safetensors; of sounds and series only."""
        return self.stop.read(sample_part(index, "safetensors"))

    def _png(self, part: str) -> bytes | None:
        data = self.stop.read(part)
        return data if data is not None and data.startswith(PNG) else None

    def step_data(self, key: str) -> dict[str, Any] | None:
        """The fields of `StepDataOut`."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        return checked(StepDataOut, self.stop.read_json(data_part(entry[0])))

    def console(self) -> str | None:
        """The last lines that were printed before the stop."""
        data = self.stop.read(CONSOLE)
        return None if data is None else data.decode("utf-8", "replace")


class KeptStops:
    """The stops of one run.

    Args:
        run_dir: the run directory.
        last: returns what is shown of a run that has ended; None of a live one.
    """

    def __init__(self, run_dir: Path, last: Callable[[], KeptStep | None]) -> None:
        self._run_dir, self._last = run_dir, last

    def find(self, stop: str | None) -> KeptStep | None:
        """What was kept of a stop; None if nothing kept is shown, as of a live run.

        Args:
            stop: its id. If left out, what the run kept last.

        Raises:
            Refusal: 404, if nothing is kept of this stop.
        """
        return self._last() if stop is None else named_step(self._run_dir, stop)


def named_step(run_dir: Path, stop: str) -> KeptStep:
    """The stop of this id.

    Raises:
        Refusal: 404, also for an id that is none; it is never part of a path as it came.
    """
    name = StopName.parse(stop)
    kept = None if name is None else read_stop(run_dir, name)
    if kept is None:
        raise Refusal(404, "no_stop", NO_STOP)
    return KeptStep(kept)


def newest_step(
    stops: Iterable[KeptStop], timeline: int, rewinds: Iterable[Rewind]
) -> KeptStep | None:
    """The newest stop that belongs to a timeline; stops of rewound steps do not."""
    limits = path_of(timeline, rewinds).limits
    on_path = [stop for stop in stops if is_on_path(stop.name, limits)]
    return KeptStep(on_path[-1]) if on_path else None


def is_on_path(name: StopName, limits: Mapping[int, int | None]) -> bool:
    """Whether a stop is on the path that these limits describe."""
    if name.timeline not in limits:
        return False
    limit = limits[name.timeline]
    return limit is None or name.step <= limit


def checked(schema: type[BaseModel], value: Any) -> dict[str, Any] | None:
    """`value` if it fits the schema; a field that an earlier midstep did not have is null."""
    if not isinstance(value, dict):
        return None
    known = {name: None for name, field in schema.model_fields.items() if field.is_required()}
    try:
        return schema.model_validate({**known, **value}).model_dump()
    except (ValidationError, RecursionError):
        return None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rows(value: Any) -> list[int]:
    return [row for row in _items(value) if type(row) is int and 0 <= row < 2**53]
