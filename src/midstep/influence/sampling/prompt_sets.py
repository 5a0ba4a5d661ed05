"""Prompt sets: questions with permanent ids, a template, answers, and rules for rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from midstep.core.errors import ConfigError

_Config = TypeVar("_Config")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One question with its template applied."""

    global_prompt_id: str
    """Id of the prompt, the same in every batch, run and machine."""
    split: str
    """Part of the prompt set, or `custom`."""
    text: str
    """The text that the model reads."""
    answer: str | None = None
    """The exact answer; None if there is none to compare with."""
    reference: str | None = None
    """A response written by hand or by rule; None if there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Other information of the set."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The result of the rules for one response, 0 or 1 each."""

    format: float
    """Whether it has the requested form."""
    answer: float
    """Whether its answer is exactly right."""


class PromptSet(Protocol):
    """The interface of a set of prompts. Users may write their own."""

    @property
    def name(self) -> str:
        """Its name in plans."""

    def splits(self) -> Mapping[str, int]:
        """The number of prompts of each split."""

    def prompt(self, split: str, index: int) -> Prompt:
        """The prompt with this index in a split."""

    def apply_template(self, question: str) -> str:
        """A user's question in the template of the set."""

    def judge(self, prompt: Prompt, response: str) -> Judgement:
        """Apply the rules to a response."""


def prompt_at(prompts: PromptSet, split: str, index: int) -> Prompt:
    """The prompt with this index; an error that lists splits and sizes if there is none."""
    splits = prompts.splits()
    if split not in splits:
        raise ConfigError(
            f"{prompts.name} has no split {split!r}; the splits are {', '.join(splits)}"
        )
    if not 0 <= index < splits[split]:
        raise ConfigError(
            f"{prompts.name} has {splits[split]} prompts in {split!r}; there is no number {index}"
        )
    return prompts.prompt(split, index)


def resolve_prompt(prompts: PromptSet, split: str, prompt_id: str | int) -> Prompt:
    """The prompt with this id, or with this index in `split`."""
    if isinstance(prompt_id, int):
        return prompt_at(prompts, split, prompt_id)
    parts = prompt_id.split("-")
    # Ids are name-split-index-hash; the whole id is compared, so that a changed set is noticed.
    if len(parts) >= 3 and parts[2].isdigit():
        prompt = prompt_at(prompts, parts[1], int(parts[2]))
        if prompt.global_prompt_id == prompt_id:
            return prompt
    raise ConfigError(
        f"{prompts.name} has no prompt {prompt_id!r}; ids look like "
        f"{prompt_at(prompts, split, 0).global_prompt_id!r}"
    )


def prompt_set(name: str, **settings: Any) -> PromptSet:
    """The prompt set called `name`.

    >>> prompt_set("arithmetic", largest=9).splits()
    {'train': 180, 'test': 20}
    """
    if name == "arithmetic":
        from midstep.influence.sampling.arithmetic import Arithmetic, ArithmeticConfig

        return Arithmetic(_build_settings(ArithmeticConfig, name, settings))
    if name == "gsm8k":
        from midstep.influence.sampling.gsm8k import GSM8K, GSM8KConfig

        return GSM8K(_build_settings(GSM8KConfig, name, settings))
    raise ConfigError(f"no prompt set {name!r}; the sets are arithmetic and gsm8k")


def _build_settings(kind: type[_Config], name: str, settings: Mapping[str, Any]) -> _Config:
    try:
        return kind(**settings)
    except TypeError as error:
        raise ConfigError(f"prompt set {name!r}: {error}") from None
