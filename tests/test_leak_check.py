"""The leak check itself: what is left behind fails the test that left it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py").read_text()
IMPATIENT = CONFTEST.replace("GRACE_S = 30.0", "GRACE_S = 0.1")
CHILD = 'subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])'

# One process for all of it, since each loads torch. A leak is tidied up by the test after it.
LEAKS = f"""
import os, subprocess, sys, threading

stop = threading.Event()
children = []

def test_leaves_a_thread():
    threading.Thread(target=stop.wait, name="forgotten", daemon=True).start()

def test_tidies_up(monkeypatch):
    stop.set()
    monkeypatch.setenv("MIDSTEP_MODE", "off")
    thread = threading.Thread(target=print)
    thread.start()
    subprocess.run([sys.executable, "-c", ""], check=True)
    thread.join()

def test_leaves_a_process():
    children.append({CHILD})

def test_ends_the_process():
    children[0].kill()
    children[0].wait()

def test_leaves_a_variable():
    os.environ["MIDSTEP_FORGOTTEN"] = "1"

def test_leaves_nothing():
    pass
"""
CHILD_OF_A_THREAD = f"""
import subprocess, sys, threading

def start_child():
    child = {CHILD}
    started.set()
    stop.wait()
    child.kill()
    child.wait()

started, stop = threading.Event(), threading.Event()
thread = threading.Thread(target=start_child, name="asyncio_0")  # may stay

def test_leaves_a_child():
    thread.start()
    started.wait()

def test_is_clean():
    stop.set()
    thread.join()
"""


def test_a_leak_fails_the_test_that_left_it_and_no_other(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(IMPATIENT)
    pytester.makepyfile(LEAKS)
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore")
    outcome.assert_outcomes(passed=6, errors=3)
    lines = [line for line in outcome.outlines if "this test left behind: " in line]
    for kind in ("thread", "process", "variable"):
        assert any(f"this test left behind: {kind} " in line for line in lines), kind
        outcome.stdout.fnmatch_lines([f"*ERROR at teardown of test_leaves_a_{kind}*"])


@pytest.mark.parametrize("tasks", ["/proc/self/task", "/nowhere"])
def test_child_of_another_thread_is_a_leak(tasks: str, pytester: pytest.Pytester) -> None:
    """Linux lists the children of each thread apart; elsewhere psutil finds them."""
    assert '"/proc/self/task"' in IMPATIENT
    pytester.makeconftest(IMPATIENT.replace('"/proc/self/task"', f'"{tasks}"'))
    pytester.makepyfile(CHILD_OF_A_THREAD)
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(["*this test left behind: process *"])
