"""A session on a GPU: cloned there, written from the host, resumed with every generator."""

from __future__ import annotations

import pytest
import torch

from midstep.session.engine import training_engine
from tests.checkers.resume import assert_session_resumes
from tests.session.sessions import Recipe

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a CUDA device; run where there is one"
)


@pytest.mark.parametrize("amp", [False, "bf16", "fp16"])
def test_a_session_on_a_gpu_resumes(amp, tmp_path):
    recipe = Recipe(
        settings={"device": "cuda", "amp": amp, "accumulate_steps": 2, "grad_clip_norm": 1.0},
        validate=True,
    )
    assert_session_resumes(recipe, tmp_path, kills=[2, 4, 5], steps=6)


def test_a_gpu_without_room_for_a_clone_gives_it_to_the_host(tmp_path, monkeypatch):
    monkeypatch.setattr(training_engine, "SHARE_OF_FREE", 0.0)
    assert_session_resumes(Recipe(settings={"device": "cuda"}), tmp_path, kills=[2], steps=4)
