"""The leak check itself: what is left behind fails the test that left it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

LEAKS = {
    "thread": "threading.Thread(target=stop.wait, name='forgotten', daemon=True).start()",
    "process": "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
    "variable": "os.environ['MIDSTEP_FORGOTTEN'] = '1'",
}
CONFTEST = Path(__file__).with_name("conftest.py").read_text()
IMPATIENT = CONFTEST.replace("GRACE_S = 30.0", "GRACE_S = 0.1")


@pytest.mark.parametrize("kind", LEAKS)
def test_leak_fails_the_test_that_left_it(kind: str, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(IMPATIENT)
    pytester.makepyfile(f"""
        import os, subprocess, sys, threading, warnings

        stop = threading.Event()

        def test_leaves_something():
            {LEAKS[kind]}

        def test_is_clean():
            stop.set()
            import psutil
            for child in psutil.Process().children():
                child.kill()
                child.wait()
    """)
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "ignore")
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines([f"*this test left behind: {kind} *"])


@pytest.mark.parametrize("tasks", ["/proc/self/task", "/nowhere"])
def test_child_of_another_thread_is_a_leak(tasks: str, pytester: pytest.Pytester) -> None:
    """Linux lists the children of each thread apart; elsewhere psutil finds them."""
    assert '"/proc/self/task"' in IMPATIENT
    pytester.makeconftest(IMPATIENT.replace('"/proc/self/task"', f'"{tasks}"'))
    pytester.makepyfile("""
        import subprocess, sys, threading

        def start_child():
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
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
    """)
    outcome = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    outcome.assert_outcomes(passed=2, errors=1)
    outcome.stdout.fnmatch_lines(["*this test left behind: process *"])


def test_clean_test_passes(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("""
        import subprocess, sys, threading

        def test_tidies_up(monkeypatch):
            monkeypatch.setenv("MIDSTEP_MODE", "off")
            thread = threading.Thread(target=print)
            thread.start()
            subprocess.run([sys.executable, "-c", ""], check=True)
            thread.join()
    """)
    assert sys.executable
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
