"""What a run prints is kept, and nothing changes for the streams and for who prints."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from midstep.cli.output.screen import Screen
from midstep.core.errors import ConfigError
from midstep.core.standard_streams import print_notice
from midstep.facts.format.console_parts import list_parts
from midstep.facts.read.console_text import as_printed, read_console
from midstep.facts.write.console_writer import FIRST_BYTES, LAST_BYTES, PART_BYTES
from midstep.session import Run
from midstep.session.evidence.console_capture import ConsoleCapture


@pytest.fixture
def run(tmp_path):
    with Run(name="printing", save_dir=tmp_path) as opened:
        yield opened


def kept(run: Run) -> str:
    run.console.flush()
    return read_console(run.dir, after=0, most=1 << 30).text


def test_streams_stay_what_they_are_and_are_free_again_at_the_end(tmp_path):
    def facts_of(stream):
        return id(stream), stream.isatty(), stream.encoding, stream.buffer, stream.errors

    before = facts_of(sys.stdout), facts_of(sys.stderr), sys.stdout.fileno()
    with Run(name="a", save_dir=tmp_path) as run:
        assert (facts_of(sys.stdout), facts_of(sys.stderr), sys.stdout.fileno()) == before
        assert print("to both", file=sys.stdout) is None
        assert sys.stderr.write("four") == 4
        sys.stderr.writelines(["\n", "lines\n"])
    print("after the end")
    assert read_console(run.dir, after=0).text == "to both\nfour\nlines\n"
    assert "write" not in vars(sys.stdout)
    assert "write" not in vars(sys.stderr)


def test_a_wrapper_that_was_put_over_ours_stays(tmp_path):
    seen = []
    with Run(name="a", save_dir=tmp_path) as run:
        ours = sys.stdout.write
        sys.stdout.write = theirs = lambda text: (seen.append(text), ours(text))[1]
        print("through both")
    try:
        assert sys.stdout.write is theirs
        print("later")
    finally:
        del sys.stdout.write
    assert "later" in seen
    assert read_console(run.dir, after=0).text == "through both\n"


def test_two_runs_at_once_each_have_all(tmp_path):
    with Run(name="a", save_dir=tmp_path) as outer:
        print("one")
        with Run(name="b", save_dir=tmp_path) as inner:
            print("two")
        print("three")
        assert kept(outer) == "one\ntwo\nthree\n"
    assert read_console(inner.dir, after=0).text == "two\n"
    assert "write" not in vars(sys.stdout)


def test_redirected_streams_handlers_and_screens_are_heard_as_they_print(run, monkeypatch):
    handler = logging.StreamHandler()
    handler.stream = sys.stderr
    theirs = logging.getLogger("training")
    theirs.addHandler(handler)
    with contextlib.redirect_stdout(io.StringIO()) as elsewhere:
        print("not on the console")

    class NotebookStream:  # as ipykernel's: an object of Python that knows no descriptor
        def write(self, text):
            return len(text)

    monkeypatch.setattr(sys, "stdout", NotebookStream())
    print("replaced after the begin")
    theirs.warning("from a handler")
    theirs.removeHandler(handler)
    assert elsewhere.getvalue() == "not on the console\n"
    assert kept(run) == "from a handler\n"


def test_a_stream_of_a_notebook_is_heard(tmp_path, monkeypatch):
    class NotebookStream:
        def write(self, text):
            return len(text)

    stream = NotebookStream()
    monkeypatch.setattr(sys, "stdout", stream)
    with Run(name="a", save_dir=tmp_path) as run:
        print("in a cell")
        assert kept(run) == "in a cell\n"
    assert vars(stream) == {}


def test_our_own_lines_are_not_captured(capsys, tmp_path):
    logger, handler = logging.getLogger("midstep"), logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    with Run(name="a", save_dir=tmp_path) as run:
        print_notice("page http://127.0.0.1:1/#token=secret")
        Screen(sys.stderr).print_line("status")
        logging.getLogger("midstep.session").warning("a warning of ours")
        print("theirs")
        assert kept(run) == "theirs\n"
    logger.removeHandler(handler)
    printed = capsys.readouterr().err
    assert all(words in printed for words in ("page", "status", "a warning of ours"))


def test_of_overwritten_lines_the_last_state_is_kept(run):
    for percent in range(101):
        sys.stderr.write(f"\r{percent} %")
        if percent == 50:
            run.console.flush()  # as after some seconds: a reader sees how far it is
            assert as_printed(read_console(run.dir, after=0).text) == "50 %"
    sys.stderr.write("\ndone\r\n")
    assert kept(run) == "50 %\r100 %\ndone\n"
    assert as_printed(kept(run)) == "100 %\ndone\n"


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_tokens_are_masked_however_they_are_printed(run, pieces):
    text = (
        "see http://h/#token="
        + "s3cret-Abc" * 4
        + " and \x1b[1m#token\x1b[0m=\x1b[31mother\x1b[0m\n"
    )
    size = max(1, len(text) // pieces)
    for at in range(0, len(text), size):
        sys.stdout.write(text[at : at + size])
        run.console.flush()
    shown = kept(run)
    assert "s3cret" not in shown
    assert "other" not in shown
    assert as_printed(shown).startswith("see http://h/#token=***")


def test_a_line_without_end_keeps_no_token_at_its_cuts(run):
    sys.stdout.write(("x" * 1000 + " #token=s3cret-Abc ") * 300)
    assert "s3cret" not in kept(run)
    assert kept(run).count("#token=***") == 300


def test_threads_print_together(run):
    def work(number):
        for line in range(500):
            sys.stdout.write(f"{number} {line}\n")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = kept(run).splitlines()
    for number in range(8):
        assert [line for line in lines if line.startswith(f"{number} ")] == [
            f"{number} {line}" for line in range(500)
        ]


def test_nothing_of_a_forked_child_is_captured(run):
    child = os.fork()
    if child == 0:
        print("in the child", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print("in the parent")
    assert kept(run) == "in the parent\n"


def test_a_flood_is_bounded_on_disk_and_in_memory(tmp_path, monkeypatch):
    with Path(os.devnull).open("w") as nowhere:
        monkeypatch.setattr(sys, "stdout", nowhere)
        with Run(name="a", save_dir=tmp_path) as run:
            print("first line")
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for number in range(100_000):  # 100 MB
                nowhere.write(f"{number:0999}\n")
            print("last line")
            grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    parts = list_parts(run.dir)
    assert grown_kib < 64 << 10
    assert parts[0].size <= FIRST_BYTES
    assert LAST_BYTES <= sum(part.size for part in parts[1:]) <= LAST_BYTES + PART_BYTES
    assert read_console(run.dir, after=0).text.startswith("first line\n")
    last = read_console(run.dir, tail=3000)
    assert last.text.endswith(f"{99_999:0999}\nlast line\n")
    assert last.line == 100_002 - last.text.count("\n") + 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.dir.glob("console*")} == {0o600}


def test_many_short_texts_keep_their_order(tmp_path):
    with Run(name="a", save_dir=tmp_path) as run:
        for number in range(20_000):
            print(number)
    assert read_console(run.dir, after=0).text.split() == [str(n) for n in range(20_000)]


def test_a_folder_that_is_gone_ends_the_capture_with_one_line(tmp_path, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    capture = ConsoleCapture()
    capture.open(folder)
    print("one")
    capture.flush()
    shutil.rmtree(folder)
    for _ in range(3):
        print("two")
        capture.flush()
    capture.close()
    out, err = capsys.readouterr()
    assert out == "one\ntwo\ntwo\ntwo\n"
    assert err.count("the console is not captured any more") == 1


@pytest.mark.parametrize("printed", ["closed", "missing"])
def test_a_closed_output_fails_as_without_us(tmp_path, monkeypatch, printed):
    stream = None if printed == "missing" else io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    if stream is not None:
        stream.close()
    with Run(name="a", save_dir=tmp_path):
        if printed == "closed":
            with pytest.raises(ValueError, match="closed"):
                print("lost")
        else:
            print("lost")


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    with Run(name="a", save_dir=tmp_path, console=False) as run:
        print("unheard")
    monkeypatch.setenv("MIDSTEP_CONSOLE", "off")
    with Run(name="b", save_dir=tmp_path) as other:
        print("unheard")
    assert not list_parts(run.dir) + list_parts(other.dir)
    monkeypatch.setenv("MIDSTEP_CONSOLE", "no")
    with pytest.raises(ConfigError, match="on or off"):
        Run(name="c", save_dir=tmp_path)


def test_a_second_attempt_continues_with_offset_and_line(tmp_path):
    for attempt in (1, 2):
        with Run(name="a", save_dir=tmp_path, run_name="a", existing="continue") as run:
            print(f"attempt {attempt}")
    assert [part.name for part in list_parts(run.dir)] == ["console.log", "console.log.10-2"]
    assert read_console(run.dir, after=0).text == "attempt 1\nattempt 2\n"


def test_the_end_of_the_interpreter_writes_what_was_printed(tmp_path):
    script = (
        "import sys; from midstep.session import Run\n"
        "run = Run(name='a', save_dir=sys.argv[1], run_name='a')\n"
        "print('last words')"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True)
    assert (tmp_path / "a" / "console.log").read_text() == "last words\n"


def test_the_traceback_of_an_error_ends_the_console(tmp_path):
    run = Run(name="a", save_dir=tmp_path)

    def train():
        with run:
            sys.stderr.write("before")  # as a progress bar leaves it
            raise ValueError("bad batch")

    with pytest.raises(ValueError, match="bad batch"):
        train()
    text = read_console(run.dir, after=0).text
    assert text.startswith("before\nTraceback (most recent call last):\n")
    assert text.endswith("ValueError: bad batch\n")
