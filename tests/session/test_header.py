"""The header's circumstances: what git says, quickly or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from midstep.session.run_header import device_of, git_state, process_info, without_secrets

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.test"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "first")
    return tmp_path


def test_a_clean_and_a_changed_repository_are_told_apart(repository):
    clean = git_state(repository)
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    (repository / "file").write_text("two")
    assert git_state(repository) == {"commit": clean["commit"], "dirty": True}


def test_outside_a_repository_there_is_no_state(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) is None


def test_a_slow_git_is_not_waited_for(repository, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("bin")
    slow = folder / "git"
    real = shutil.which("git")
    slow.write_text(f'#!/bin/sh\n[ $1 = rev-parse ] && exec {real} "$@"\nexec sleep 60')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert git_state(repository)["dirty"] is None


def test_without_git_there_is_no_state(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert git_state(repository) is None


def test_the_command_line_is_this_process_unless_given(tmp_path):
    assert process_info(None, tmp_path)["argv"] == sys.orig_argv
    assert process_info(["midstep", "demo"], tmp_path)["argv"] == ["midstep", "demo"]


def test_no_model_has_no_device():
    assert device_of(None) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--api-key", "abc", "--lr", "1"], ["--api-key", "***", "--lr", "1"]),
        (["--hf_token=abc"], ["--hf_token=***"]),
        (["WANDB_API_KEY=a=b"], ["WANDB_API_KEY=***"]),
        (["db.password=x", "--apiKey", "y"], ["db.password=***", "--apiKey", "***"]),
        (["-password", "x"], ["-password", "***"]),
        (["--secret", "--lr", "1"], ["--secret", "--lr", "1"]),
        (["--data", "s3://me:abc@host/x"], ["--data", "s3://me:***@host/x"]),
        (["--tokenizer", "bpe", "--max-tokens=5"], ["--tokenizer", "bpe", "--max-tokens=5"]),
        (["-c", "token = 'x'; key=1"], ["-c", "token = 'x'; key=1"]),
    ],
)
def test_values_behind_the_names_of_secrets_are_masked(given, kept, tmp_path):
    assert without_secrets(given) == kept
    assert process_info(given, tmp_path)["argv"] == kept
