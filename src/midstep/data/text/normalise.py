"""When two texts count as the same, and texts numbered without repeats.

Two texts are the same when their normalised forms are equal: Unicode NFKC, no invisible characters,
case folded, one space between words, no quotation or punctuation marks at either end.
"""

from __future__ import annotations

import re
import unicodedata

_EDGES = " .,;:!?…\"'`´‘’“”«»„"
_SPACES = re.compile(r"\s+")


def normalise_text(text: str) -> str:
    """The form in which texts are compared.

    >>> normalise_text(" “Is  the SKY blue?” ") == normalise_text("is the sky blue")
    True
    >>> normalise_text("?!")  # a text of punctuation only keeps it, so it is not empty
    '?!'
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding may undo composition ("ŉ"), so compose once more.
    visible = "".join(
        " " if character.isspace() else character
        for character in unicodedata.normalize("NFKC", folded)
        if character.isspace() or unicodedata.category(character) not in ("Cc", "Cf")
    )
    spaced = _SPACES.sub(" ", visible).strip()
    return spaced.strip(_EDGES) or spaced


class NumberedTexts:
    """Distinct texts, numbered from 0 in the order in which they are first added.

    >>> texts = NumberedTexts()
    >>> [texts.add(each) for each in ("Why?", "How?", "why")], texts.texts
    ([0, 1, 0], ['Why?', 'How?'])
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        """Each text as it was first written."""
        self.rows: list[int] = []
        """The row given with each text when it was first added."""
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def add(self, text: str, row: int = 0) -> int:
        """The number of a text; a new text gets the next number, and its row is kept."""
        number = self._numbers.setdefault(normalise_text(text), len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
            self.rows.append(row)
        return number
