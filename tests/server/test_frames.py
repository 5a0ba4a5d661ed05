from __future__ import annotations

import asyncio
import json

import numpy as np
import pytest

from midstep.facts import EventRecord, StepRows
from midstep.facts.format.event_lines import EventHeader, check_line, encode_fields, encode_line
from midstep.server.stream.run_stream import FrameBudget
from midstep.server.stream.stream_frames import (
    MAX_NUMBERS,
    durable_frames,
    state_frame,
    volatile_frame,
)
from midstep.server.stream.viewer_queue import MAX_BYTES, ViewerQueue


def rows(first: int, count: int, timeline: int = 0, **columns: float) -> StepRows:
    return StepRows(
        first_seq=first,
        last_seq=first + count - 1,
        timeline=timeline,
        step=np.arange(first, first + count),
        columns={name: np.full(count, value) for name, value in columns.items()},
        wall=np.zeros(count),
    )


def event(seq: int, moment: str = "on_intervention", timeline: int = 0, **fields) -> EventRecord:
    head = EventHeader(1, 0, 1.5, 0.25, moment, "0123456789ab", timeline)
    line = check_line(encode_line(seq, head, encode_fields(fields)).rstrip(b"\n"))
    assert line is not None
    return EventRecord(line)


def parsed(frame):
    return json.loads(frame.data.partition(b"data: ")[2])


def seqs(frames):
    return [seq for frame in frames for seq in range(frame.first_seq, frame.last_seq + 1)]


def test_neighbouring_rows_of_several_layouts_become_one_message():
    (frame,) = durable_frames([rows(1, 2, a=1.0), rows(3, 1, a=2.0, b=3.0), rows(4, 1, c=4.0)])
    message = parsed(frame)
    assert message["step"] == [1, 2, 3, 4]
    assert message["columns"] == {
        "a": [1.0, 1.0, 2.0, None],
        "b": [None, None, 3.0, None],
        "c": [None, None, None, 4.0],
    }
    assert frame.data.startswith(b"id: 0.4\n")


def test_events_and_timelines_keep_their_place():
    frames = list(
        durable_frames([rows(1, 2, a=1.0), event(3), rows(4, 1, a=1.0), rows(5, 1, 1, a=2)])
    )
    assert seqs(frames) == [1, 2, 3, 4, 5]
    assert [frame.data.split(b"\n")[0] for frame in frames] == [
        b"id: 0.2",
        b"id: 0.3",
        b"id: 0.4",
        b"id: 1.5",
    ]


@pytest.mark.parametrize("moment", ["on_epoch_end", 'odd "moment"', "üm"])
def test_an_event_travels_as_it_was_written(moment):
    told = event(
        *(7, moment, 3),
        loss=float("nan"),
        words='"quoted"\n\u2028 ü',
        moment_='","run_id":"x","timeline":9,',
        metrics={"a": [1e-300, 0.1, 2]},
    )
    (frame,) = durable_frames([told])
    assert frame.data.startswith(b"id: 3.7\ndata: ")
    assert frame.data.count(b"\n") == 3
    assert parsed(frame) == {"type": "event", "seq": 7, "record": told.record}
    assert (told.moment, told.timeline) == (told.record["moment"], told.record["timeline"])


def test_long_stretches_are_cut_into_bounded_frames():
    frames = list(durable_frames([rows(1, 50_000, a=1.0, b=2.0)]))
    assert seqs(frames) == list(range(1, 50_001))
    assert all(len(parsed(frame)["step"]) * 3 <= MAX_NUMBERS for frame in frames)


def test_a_frame_is_cut_behind_a_number_anywhere():
    (frame,) = durable_frames([rows(1, 3, a=1.0), rows(4, 3, b=1.0)])
    for seq in range(8):
        assert seqs(frame.after(seq)) == list(range(seq + 1, 7))


def queue(cursor: int = 0) -> ViewerQueue:
    async def make() -> ViewerQueue:
        return ViewerQueue(cursor=cursor, reads_from_disk=False)

    return asyncio.run(make())


def test_viewers_share_the_bytes_of_a_frame():
    (frame,) = durable_frames([rows(1, 3, a=1.0)])
    first, second = queue(), queue()
    first.offer(frame)
    second.offer(frame)
    assert first._frames[0] is second._frames[0] is frame


def test_the_newest_volatile_frame_wins_and_the_loss_is_counted():
    waiting = queue()
    for step in range(5):
        waiting.offer(volatile_frame("state", {"step": step}))
    assert waiting.dropped == 4
    assert waiting.take() == b'data: {"step":4}\n\n'
    assert b'"dropped":4' in state_frame({}, waiting.dropped).data


def test_a_slow_viewer_falls_behind_within_its_bound_and_keeps_its_place():
    waiting = queue()
    frames = list(durable_frames([rows(1, 200_000, a=1.0)]))
    for frame in frames:
        waiting.offer(frame)
    assert waiting.reads_from_disk
    assert waiting.waiting_bytes <= MAX_BYTES
    cursor = waiting.cursor
    assert 0 < cursor < 200_000
    waiting.take()
    waiting.offer(frames[-1])  # it reads from disk now; memory must not overtake it
    assert (waiting.take(), waiting.cursor) == (b"", cursor)


def test_frames_already_seen_are_not_repeated():
    waiting = queue(cursor=2)
    for frame in durable_frames([rows(1, 4, a=1.0)]):
        waiting.offer(frame)
        waiting.offer(frame)
    assert parsed(waiting._frames[0])["first_seq"] == 3
    assert len(waiting._frames) == 1


def test_budget_lets_a_burst_through_then_ten_a_second():
    now = [0.0]
    budget = FrameBudget(per_s=10, burst=3, clock=lambda: now[0])
    for _ in range(3):
        assert budget.wait_s() == 0.0
        budget.spend()
    assert budget.wait_s() > 0
    now[0] = 10.0
    assert budget.wait_s() == 0.0


def test_command_line_and_folder_travel_in_no_frame():
    started = event(1, "on_start", seed=7, argv=["--key", "abc"], cwd="/home/ada")
    (frame,) = durable_frames([started])
    assert b'"seed":7' in frame.data
    assert b"abc" not in frame.data
    assert b"ada" not in frame.data
