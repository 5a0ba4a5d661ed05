"""Tokenizers: text to tokens and back, with the few ids that sampling needs."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from typing import Any, Protocol

from midstep.core.errors import ConfigError, FormatError

_SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")


class Tokenizer(Protocol):
    """What sampling asks of a tokenizer."""

    @property
    def pad_id(self) -> int:
        """Fills up short sequences; masked everywhere, so any token will do."""
        ...

    @property
    def end_id(self) -> int:
        """The token after which a response is over."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of what turns text into tokens."""
        ...

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; a prompt begins with whatever a sequence begins with."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        ...

    def unknown_in(self, text: str) -> str:
        """The characters of `text` that no token stands for, each once."""
        ...


class CharacterTokenizer:
    """One token a character: printable ASCII and line ends, with four special tokens in front.

    >>> tokenizer = CharacterTokenizer()
    >>> tokenizer.decode(tokenizer.encode("12+7=", prompt=True))
    '12+7='
    """

    pad_id, begin_id, end_id, unknown_id = range(4)

    def __init__(self, alphabet: str | None = None) -> None:
        self.alphabet = alphabet if alphabet is not None else _printable()
        if len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise ConfigError("an alphabet holds each character once, and at least one")
        first = len(_SPECIAL)
        self._ids = {character: first + at for at, character in enumerate(self.alphabet)}

    @property
    def vocab_size(self) -> int:
        """Tokens with the special ones."""
        return len(_SPECIAL) + len(self.alphabet)

    @property
    def fingerprint(self) -> str:
        """A hash of the alphabet."""
        return _hash("characters", self.alphabet)

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; unknown characters all become one token."""
        tokens = [self._ids.get(character, self.unknown_id) for character in text]
        return [self.begin_id, *tokens] if prompt else tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The characters of `tokens`; special ones give nothing, unknown ones a mark."""
        first = len(_SPECIAL)
        characters = []
        for token in tokens:
            if token == self.unknown_id:
                characters.append("�")
            elif token >= first:
                characters.append(self.alphabet[token - first])
        return "".join(characters)

    def unknown_in(self, text: str) -> str:
        """The characters that are not in the alphabet, each once.

        >>> CharacterTokenizer("0123456789+=").unknown_in("2×3=6×1")
        '×'
        """
        return "".join(dict.fromkeys(one for one in text if one not in self._ids))

    def describe(self) -> dict[str, Any]:
        """What `from_description` needs to make it again."""
        return {"kind": "characters", "alphabet": self.alphabet}

    @classmethod
    def from_description(cls, description: Any) -> CharacterTokenizer:
        """The tokenizer that `describe` told of."""
        if not isinstance(description, dict) or description.get("kind") != "characters":
            raise FormatError(f"not the description of a character tokenizer: {description!r:.200}")
        return cls(str(description["alphabet"]))


def _printable() -> str:
    return string.digits + string.ascii_letters + string.punctuation + " \n"


class HuggingFaceTokenizer:
    """A tokenizer of transformers; one without padding pads with its end token.

    Args:
        tokenizer: as `AutoTokenizer.from_pretrained` gives it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "the tokenizer has no end token, so no response would ever end; "
                "set tokenizer.eos_token and save the tokenizer beside the checkpoint"
            )
        self.end_id = int(tokenizer.eos_token_id)
        # Padding is masked in attention and in every sum, so the end token serves as well.
        padding = tokenizer.pad_token_id
        self.pad_id = int(padding) if padding is not None else self.end_id

    @property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the added tokens and the merging rules where they show."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return _hash("hugging face", backend.to_str())
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda pair: pair[1])
        return _hash("hugging face", repr(vocabulary))

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; only a prompt gets the tokenizer's own special tokens in front."""
        if not prompt:
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        tokens = list(self.tokenizer.encode(text, add_special_tokens=True))
        while tokens and tokens[-1] == self.end_id:  # some close what they encode; a prompt is open
            tokens.pop()
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`."""
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def unknown_in(self, text: str) -> str:
        """The characters that become the unknown token; nothing where that is the end token."""
        unknown = self.tokenizer.unk_token_id
        if unknown is None or unknown == self.end_id:
            return ""
        if unknown not in self.tokenizer.encode(text, add_special_tokens=False):
            return ""
        unknown_characters = [
            one
            for one in dict.fromkeys(text)
            if unknown in self.tokenizer.encode(one, add_special_tokens=False)
        ]
        return "".join(unknown_characters) or text


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=16).hexdigest()
