"""Tags and a note of a run: `labels.json` in its directory.

Labels are not facts of the training, so any process may write them, also while the run is live.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from midstep.core import strict_json
from midstep.core.errors import ConfigError, FormatError
from midstep.core.files.masked_text import mask_page_tokens
from midstep.core.files.storage import replace_json
from midstep.core.files.untrusted_files import read_plain

FILE = "labels.json"
MOST_TAGS = 32
TAG_CHARACTERS = 64
NOTE_CHARACTERS = 10_000


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The tags and the note that people put on a run.

    >>> Labels(tags=("baseline", "baseline "), note="").tags
    ('baseline',)
    """

    tags: tuple[str, ...] = ()
    """Each tag once, without surrounding spaces."""
    note: str = ""
    """Any text."""

    def __post_init__(self) -> None:
        tags = tuple(dict.fromkeys(tag.strip() for tag in self.tags if tag.strip()))
        object.__setattr__(self, "tags", tags)
        if len(tags) > MOST_TAGS:
            raise ConfigError(f"a run can have {MOST_TAGS} tags, got {len(tags)}; remove some")
        for tag in tags:
            if len(tag) > TAG_CHARACTERS or "," in tag or not tag.isprintable():
                raise ConfigError(
                    f"tag {tag[:80]!r} must be one line of at most {TAG_CHARACTERS} characters "
                    "without a comma"
                )
        if len(self.note) > NOTE_CHARACTERS:
            raise ConfigError(
                f"a note can have {NOTE_CHARACTERS:,} characters, got {len(self.note):,}; "
                "shorten it"
            )


def read_labels(run_dir: str | Path) -> Labels:
    """The labels of a run; empty if the file is missing or damaged."""
    try:
        content = strict_json.loads(read_plain(Path(run_dir) / FILE))
        return Labels(tags=tuple(map(str, content["tags"])), note=str(content["note"]))
    except (OSError, FormatError, ConfigError, KeyError, TypeError):
        return Labels()


def write_labels(
    run_dir: str | Path, *, tags: Iterable[str] | None = None, note: str | None = None
) -> Labels:
    """Replace the tags, the note or both; what is left out stays. Returns the new labels.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = write_labels(folder, tags=["good"])
    >>> write_labels(folder, note="try again").tags
    ('good',)
    """
    labels = read_labels(run_dir)
    if tags is not None:
        labels = replace(labels, tags=tuple(map(mask_page_tokens, tags)))
    if note is not None:
        labels = replace(labels, note=mask_page_tokens(note))
    content = {"version": 1, "tags": list(labels.tags), "note": labels.note}
    replace_json(Path(run_dir) / FILE, content, mode=0o600)
    return labels
