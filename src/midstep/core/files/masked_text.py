"""What must not get into a file: values whose names say that they are secret, and page tokens."""

from __future__ import annotations

import re

MASK = "***"
_SECRET = re.compile(r"(key|token|secrets?|passwords?|passwd|passphrase|credentials?)$")
_PAGE_TOKEN = re.compile(r"(#token=)[^\s\"'<>)\]]+")


def names_a_secret(name: str) -> bool:
    """Whether a value of this name must not be recorded.

    >>> names_a_secret("wandb_api_key"), names_a_secret("tokenizer")
    (True, False)
    """
    return any(_SECRET.search(word) for word in re.split(r"[-_./]", name.lower()))


def mask_page_tokens(text: str) -> str:
    """The text with `***` for the token in each address of a page.

    >>> mask_page_tokens("page http://127.0.0.1:8765/#token=abc-_9 is open")
    'page http://127.0.0.1:8765/#token=*** is open'
    """
    return _PAGE_TOKEN.sub(rf"\1{MASK}", text)
