"""Tests hear signals that were ignored by the shell or by `nohup` which started them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

IGNORING = """
import os, signal, sys
for name in ("SIGINT", "SIGHUP", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"])
"""


def test_ignored_signals_are_heard_in_tests_and_in_their_children(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile("""
        import signal, subprocess, sys
        import pytest

        NUMBERS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
        SLEEP = "print('here', flush=True); import time; time.sleep(600)"

        @pytest.mark.parametrize("number", NUMBERS)
        def test_is_heard_here(number):
            assert signal.getsignal(number) is not signal.SIG_IGN

        def test_interrupt_raises():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

        @pytest.mark.parametrize("number", NUMBERS)
        def test_ends_a_child(number):
            command = [sys.executable, "-c", SLEEP]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
                child.stdout.readline()
                child.send_signal(number)
                try:
                    assert child.wait(60) == -number
                finally:
                    child.kill()
    """)
    outcome = pytester.run(sys.executable, "-c", IGNORING)
    outcome.assert_outcomes(passed=7)
