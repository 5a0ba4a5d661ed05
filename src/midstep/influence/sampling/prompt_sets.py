"""Prompt sets: questions with ids that never change, their template, answers and rules.

A set is asked by split and place or by id; it applies its template, and it judges responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from midstep.core.errors import ConfigError

_Config = TypeVar("_Config")


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One question, ready to be asked."""

    global_prompt_id: str
    """The same in every batch, run and machine."""
    split: str
    """Part of the prompt set, or `custom`."""
    text: str
    """What the model sees: the template is applied."""
    answer: str | None = None
    """The exact answer; None: there is none to compare with."""
    reference: str | None = None
    """A response written by hand or by rule; None: there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the set knows."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the rules say of one response, each 0 or 1."""

    format: float
    """It has the form that was asked for."""
    answer: float
    """Its answer is exactly right."""


class PromptSet(Protocol):
    """What sampling asks of a set of prompts."""

    @property
    def name(self) -> str:
        """How plans call it."""
        ...

    def splits(self) -> Mapping[str, int]:
        """Names of the parts, each with its number of prompts."""
        ...

    def prompt(self, split: str, index: int) -> Prompt:
        """The prompt at a place of a part."""
        ...

    def apply_template(self, question: str) -> str:
        """A question of one's own, in the form of the set."""
        ...

    def judge(self, prompt: Prompt, response: str) -> Judgement:
        """What the rules say of a response."""
        ...


def prompt_at(prompts: PromptSet, split: str, index: int) -> Prompt:
    """The prompt at a place, with a clear word when there is none."""
    splits = prompts.splits()
    if split not in splits:
        raise ConfigError(f"{prompts.name} has no split {split!r}; there are {', '.join(splits)}")
    if not 0 <= index < splits[split]:
        raise ConfigError(
            f"{prompts.name} has {splits[split]} prompts in {split!r}; there is no number {index}"
        )
    return prompts.prompt(split, index)


def resolve_prompt(prompts: PromptSet, split: str, prompt_id: str | int) -> Prompt:
    """The prompt with this id, or at this place of `split`."""
    if isinstance(prompt_id, int):
        return prompt_at(prompts, split, prompt_id)
    parts = prompt_id.split("-")
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
    raise ConfigError(f"no prompt set {name!r}; there are arithmetic and gsm8k")


def _build_settings(kind: type[_Config], name: str, settings: Mapping[str, Any]) -> _Config:
    try:
        return kind(**settings)
    except TypeError as error:
        raise ConfigError(f"prompt set {name!r}: {error}") from None
