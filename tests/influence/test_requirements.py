"""The room runs where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import subprocess
import sys

OTHERS = (
    "fastapi",
    "matplotlib",
    "pandas",
    "peft",
    "psutil",
    "rich",
    "sklearn",
    "tokenizers",
    "transformers",
    "typer",
    "yaml",
)
CODE = f"""
import sys
for name in {OTHERS}:
    sys.modules[name] = None
import midstep.influence.notebook, midstep.influence.study.runner, midstep.influence.sampling
from midstep.influence import FisherKernelRunner, fisher_kernel, validate
from midstep.core.errors import MissingExtraError
from midstep.influence.sampling.lm_checkpoints import _load_hugging_face
try:
    _load_hugging_face(None, "cpu", None)
except MissingExtraError as error:
    print(error)
"""


def test_room_imports_alone_and_names_the_extra_that_is_missing() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    )
    assert "pip install 'midstep[hf]'" in answer.stdout
