"""The token in the address of a page: masked wherever a text is written to a run directory."""

from __future__ import annotations

import re

# Terminals get the parts of an address in several colours, with codes between them.
_CODES = r"(?:\x1b\[[0-9;]*m)*"
_TOKEN = re.compile(rf"(#{_CODES}token{_CODES}={_CODES})[^\s\"'<>]*")
MASK = "***"


def mask_tokens(text: str) -> str:
    """The text with `***` for every token of a page.

    >>> mask_tokens("open http://127.0.0.1:8765/#token=abc-1 now")
    'open http://127.0.0.1:8765/#token=*** now'
    """
    if "#" not in text or "token" not in text:
        return text
    return _TOKEN.sub(rf"\1{MASK}", text)
