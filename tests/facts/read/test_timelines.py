"""Each timeline of a run that was taken back stays readable as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstep.core.errors import ConfigError, FormatError
from midstep.core.moments import Moment
from midstep.facts import FactsReader, FactsWriter
from midstep.facts.format.paths import LINEAGE
from midstep.facts.read.timelines import Rewind, path_of
from midstep.session.engine.lineage import Lineage, read_lineage


def write(folder: Path, moves: list[tuple[int, int]]) -> list[dict[int, float]]:
    """Steps, and how many of them are taken back then; gives each timeline as it was left."""
    left: list[dict[int, float]] = []
    now: dict[int, float] = {}
    step = timeline = 0
    with FactsWriter(folder) as facts:
        for forward, back in [*moves, (1, 0)]:
            for _ in range(forward):
                step += 1
                now[step] = 1000.0 * timeline + step
                facts.log(step, loss=now[step])
            left.append(dict(now))
            if back == 0:
                break
            target = max(0, step - back)
            timeline, parent = timeline + 1, timeline
            facts.timeline = timeline
            facts.event(
                Moment.INTERVENTION, kind="rewind", from_step=step, step=target, parent=parent
            )
            step, now = target, {at: loss for at, loss in now.items() if at <= target}
    return left


def read(folder: Path, timeline: int | None) -> dict[int, float]:
    series = FactsReader(folder).series(["loss"], timeline=timeline)["loss"]
    return dict(zip(series.step.tolist(), series.low.tolist(), strict=True))


@settings(deadline=None)
@given(moves=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), max_size=5))
def test_every_timeline_is_read_as_it_was_left(
    moves: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    left = write(folder, moves)
    for timeline, expected in enumerate(left):
        assert read(folder, timeline) == expected
    assert read(folder, None) == left[-1]  # nothing of what was taken back


def test_an_unknown_timeline_is_refused_with_those_there_are(tmp_path: Path) -> None:
    write(tmp_path, [(3, 2)])
    with pytest.raises(ConfigError, match="it has 0 to 1"):
        FactsReader(tmp_path).path_of(2)


def test_rewinds_are_listed_in_order(tmp_path: Path) -> None:
    write(tmp_path, [(5, 2), (1, 3)])
    assert FactsReader(tmp_path).rewinds() == [
        Rewind(timeline=1, parent=0, step=3, from_step=5),
        Rewind(timeline=2, parent=1, step=1, from_step=4),
    ]
    limits = path_of(2, FactsReader(tmp_path).rewinds()).limits
    assert limits == {2: None, 1: 1, 0: 1}


def test_lineage_names_a_timeline_once_it_was_changed(tmp_path: Path) -> None:
    write(tmp_path, [(5, 2)])
    lineage = Lineage(tmp_path)
    lineage.changed(timeline=0, step=1, kind="hparams", lr=0.1)
    assert not (tmp_path / LINEAGE).exists()
    lineage.changed(timeline=1, step=3, kind="hparams", lr=0.1)
    lineage.changed(timeline=1, step=4, kind="hparams", lr=0.2)
    (edge,) = read_lineage(tmp_path)["edges"]
    assert (edge["timeline"], edge["parent_timeline"], edge["step"]) == (1, 0, 3)
    assert [each["lr"] for each in edge["interventions"]] == [0.1, 0.2]


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 99}', ""])
def test_a_lineage_that_is_none_of_ours_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / LINEAGE).write_text(text)
    with pytest.raises(FormatError, match="move it away"):
        read_lineage(tmp_path)
    Lineage(tmp_path).changed(timeline=1, step=3, kind="hparams", lr=0.1)  # stops no training
    assert (tmp_path / LINEAGE).read_text() == text
