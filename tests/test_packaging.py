"""The wheel: made from the sdist without Node, it carries the page and serves it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


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


def test_wheel_in_a_new_environment_serves_the_page_without_node(
    wheel: Path, tmp_path: Path
) -> None:
    fresh = tmp_path / "fresh"
    venv.create(fresh)
    python = str(fresh / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = fresh.glob("lib/*/site-packages")
    # Its dependencies are lent: installing torch again takes minutes. The release installs all.
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "lent.pth").write_text("\n".join(lent))
    without_node = {"PATH": str(fresh / "bin"), "HOME": str(tmp_path)}

    def run(*command: str) -> list[str]:
        done = subprocess.run(
            command, cwd=tmp_path, env=without_node, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    served = run(python, str(ROOT / "tools" / "try_wheel.py"))
    assert served[-2:] == [str(packages / "midstep"), "200 the page"]
    version = wheel.name.split("-")[1]
    assert run(str(fresh / "bin" / "midstep"), "--version") == [f"midstep {version}"]
