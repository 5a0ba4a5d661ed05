"""Tokenizers: text to tokens and back, with the special ids that sampling needs."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Sequence
from typing import Any, Protocol

from midstep.core.errors import ConfigError, FormatError

_PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " \n"
_SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")


class Tokenizer(Protocol):
    """The interface of a tokenizer. Users may write their own."""

    @property
    def pad_id(self) -> int:
        """Id of the padding. It is masked everywhere, so any token works."""

    @property
    def end_id(self) -> int:
        """Id of the token that ends a response."""

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the tokens of a text."""

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; a prompt begins with the start token, if there is one."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special tokens."""

    def unknown_in(self, text: str) -> str:
        """The characters of `text` that have no token, each once."""


class CharacterTokenizer:
    """One token per character: printable ASCII and line ends, after four special tokens.

    >>> tokenizer = CharacterTokenizer()
    >>> tokenizer.decode(tokenizer.encode("12+7=", prompt=True))
    '12+7='
    """

    pad_id, begin_id, end_id, unknown_id = range(4)

    def __init__(self, alphabet: str | None = None) -> None:
        self.alphabet = alphabet if alphabet is not None else _PRINTABLE
        if len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise ConfigError("an alphabet must have at least one character, and each only once")
        first = len(_SPECIAL)
        self._ids = {character: first + at for at, character in enumerate(self.alphabet)}

    @property
    def vocab_size(self) -> int:
        """Number of tokens, including special ones."""
        return len(_SPECIAL) + len(self.alphabet)

    @property
    def fingerprint(self) -> str:
        """Hash of the alphabet."""
        return _hash("characters", self.alphabet)

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; unknown characters all become one token."""
        tokens = [self._ids.get(character, self.unknown_id) for character in text]
        return [self.begin_id, *tokens] if prompt else tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The characters of `tokens`, without special tokens; an unknown one becomes a mark."""
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
        """The data from which `from_description` builds the same tokenizer."""
        return {"kind": "characters", "alphabet": self.alphabet}

    @classmethod
    def from_description(cls, description: Any) -> CharacterTokenizer:
        """The tokenizer with this description."""
        if not isinstance(description, dict) or description.get("kind") != "characters":
            raise FormatError(f"not the description of a character tokenizer: {description!r:.200}")
        return cls(str(description["alphabet"]))


class HuggingFaceTokenizer:
    """A tokenizer of transformers. Without a padding token it pads with its end token.

    Args:
        tokenizer: as `AutoTokenizer.from_pretrained` loads it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        if tokenizer.eos_token_id is None:
            raise ConfigError(
                "the tokenizer has no end token, so a response cannot end; "
                "set tokenizer.eos_token and save the tokenizer next to the checkpoint"
            )
        self.end_id = int(tokenizer.eos_token_id)
        # Padding is masked in attention and in every sum, so the end token works too.
        padding = tokenizer.pad_token_id
        self.pad_id = int(padding) if padding is not None else self.end_id

    @property
    def fingerprint(self) -> str:
        """Hash of vocabulary, added tokens and merge rules; a slow tokenizer has only the first."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None:
            return _hash("hugging face", backend.to_str())
        vocabulary = sorted(self.tokenizer.get_vocab().items(), key=lambda pair: pair[1])
        return _hash("hugging face", repr(vocabulary))

    def encode(self, text: str, *, prompt: bool) -> list[int]:
        """Tokens of `text`; only a prompt gets the tokenizer's special tokens."""
        if not prompt:
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        tokens = list(self.tokenizer.encode(text, add_special_tokens=True))
        while tokens and tokens[-1] == self.end_id:  # some add it; a prompt must stay open
            tokens.pop()
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`."""
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text

    def unknown_in(self, text: str) -> str:
        """The characters that become the unknown token; none if that is also the end token."""
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
