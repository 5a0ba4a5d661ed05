"""The wheel: made from the sdist without Node, it carries the page and serves it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SERVES = """
import urllib.request
from pathlib import Path
import midstep
print(Path(midstep.__file__).parent)
with midstep.serve(midstep.DebugController(), port=0, save_dir="runs") as page:
    with urllib.request.urlopen(page.url.partition("#")[0]) as answer:
        print(answer.status, b'<div id="root">' in answer.read())
"""


def build(*arguments: str, cwd: Path, path: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *arguments],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in two stages, the second where neither node nor npm can be found."""
    if not (ROOT / "src/midstep/server/static/index.html").is_file():
        pytest.skip("the page is not built; run: make test")
    folder = tmp_path_factory.mktemp("dist")
    build("--sdist", "--outdir", str(folder), str(ROOT), cwd=folder, path=os.environ["PATH"])
    (sdist,) = folder.glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", sdist.name], cwd=folder, check=True)
    source = folder / sdist.name.removesuffix(".tar.gz")
    build("--wheel", "--outdir", str(folder), str(source), cwd=folder, path="/nowhere")
    (made,) = folder.glob("*.whl")
    return made


def test_wheel_carries_page_types_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    own = ("midstep/py.typed", "midstep/server/static/index.html", "midstep/conf/config.yaml")
    for name in own:
        assert name in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "dashboard/", "tools/")) for name in names)


def test_installed_wheel_serves_the_page(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    answer = subprocess.run(
        [sys.executable, "-c", SERVES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == [str(target / "midstep"), "200 True"]
