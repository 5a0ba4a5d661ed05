"""ChromaDB for real: a folder written by one process, reopened by another, used for triplets."""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from midstep.core.errors import MissingExtraError
from midstep.data import ChromaStore

CHILD = Path(__file__).with_name("chroma_child.py")
ROOT = Path(__file__).parents[3]

needs_chromadb = pytest.mark.skipif(
    importlib.util.find_spec("chromadb") is None and os.environ.get("CI") != "true",
    reason="chromadb is not installed; install it with: pip install 'midstep[rag]'",
)


def run(what: str, folder: Path) -> Any:
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(CHILD), what, str(folder)],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=ROOT,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@needs_chromadb
@pytest.mark.timeout(400)  # two processes that import much, on a machine that may be busy
def test_store_written_by_one_process_gives_triplets_in_another(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    written = run("write", folder)
    assert written["count"] == 240
    assert written["recall"] >= 0.9
    assert "has a record 's0' already" in written["told"][0]
    assert "shape [1, 3], expected [1, 384]" in written["told"][1]
    assert "compares by l2, expected cosine" in written["told"][2]

    found = run("read", folder)
    assert found["count"] == 240
    assert found["recall"] >= 0.9
    assert found["ids"] == ["s1", "s0"]
    assert found["text"] == "About the snow, part 0 of 0."
    assert found["length"] == pytest.approx(1, abs=1e-5)
    assert found["made"] == {"positive": 120, "contrastive": 720, "similar": 720}
    assert found["shared"]["positive"] == 1
    assert min(found["shared"].values()) >= 0.9  # as near to exact as its recall says


def test_missing_library_is_told_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("chromadb"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"midstep\[rag\]"):
        ChromaStore(tmp_path)
