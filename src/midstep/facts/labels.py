"""Tags and a note that people put on a run: `labels.json` in its directory.

It is no fact of the training, so it may be written while the run is live and by whoever looks on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.core.storage import replace_json
from midstep.facts.plain import read_plain

__all__ = ["FILE", "Labels", "read_labels", "write_labels"]

FILE = "labels.json"
MOST_TAGS = 32
TAG_CHARACTERS = 64
NOTE_CHARACTERS = 10_000


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What people said about a run.

    >>> Labels(tags=("baseline", "baseline "), note="").tags
    ('baseline',)
    """

    tags: tuple[str, ...] = ()
    """Each once, without spaces around it."""
    note: str = ""
    """Any text."""

    def __post_init__(self) -> None:
        tags = tuple(dict.fromkeys(tag.strip() for tag in self.tags if tag.strip()))
        object.__setattr__(self, "tags", tags)
        if len(tags) > MOST_TAGS:
            raise ConfigError(f"a run takes {MOST_TAGS} tags, got {len(tags)}")
        for tag in tags:
            if len(tag) > TAG_CHARACTERS or "," in tag or not tag.isprintable():
                raise ConfigError(
                    f"tag {tag[:80]!r} must be one line of at most {TAG_CHARACTERS} characters "
                    "without a comma"
                )
        if len(self.note) > NOTE_CHARACTERS:
            raise ConfigError(
                f"a note takes {NOTE_CHARACTERS:,} characters, got {len(self.note):,}"
            )


def read_labels(run_dir: str | Path) -> Labels:
    """The labels of a run; none where there is no file, or one that is none of ours."""
    try:
        kept = strict_json.loads(read_plain(Path(run_dir) / FILE))
        return Labels(tags=tuple(map(str, kept["tags"])), note=str(kept["note"]))
    except (OSError, FormatError, ConfigError, KeyError, TypeError):
        return Labels()


def write_labels(
    run_dir: str | Path, *, tags: Iterable[str] | None = None, note: str | None = None
) -> Labels:
    """Replace the tags, the note or both; what is left out stays. Gives back what holds now.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = write_labels(folder, tags=["good"])
    >>> write_labels(folder, note="try again").tags
    ('good',)
    """
    labels = read_labels(run_dir)
    if tags is not None:
        labels = replace(labels, tags=tuple(tags))
    if note is not None:
        labels = replace(labels, note=note)
    kept = {"version": 1, "tags": list(labels.tags), "note": labels.note}
    replace_json(Path(run_dir) / FILE, kept)
    return labels
