"""A server proves that it knows the token before it is shown the token.

Another user of the host may sit on the port that a run had. It is asked for a keyed hash of a fresh
number and of the address that it was asked under, so that it cannot pass the question on, either.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

__all__ = ["new_challenge", "proof", "proves"]


def new_challenge() -> str:
    """A number that was never used before."""
    return secrets.token_urlsafe(24)


def proof(token: str, challenge: str, host: str) -> str:
    """What only somebody who knows `token` can answer.

    Args:
        token: the secret.
        challenge: what `new_challenge` gave.
        host: the `Host` under which the server was asked, for example `127.0.0.1:8765`.

    >>> len(proof("secret", "abc", "127.0.0.1:8765"))
    64
    """
    message = f"midstep proof 1\n{host}\n{challenge}".encode()
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def proves(answers: object, token: str, challenge: str, host: str) -> bool:
    """Whether one of a server's answers is right: it has one for each of its tokens."""
    wanted = proof(token, challenge, host)
    given = [each for each in answers if isinstance(each, str)] if isinstance(answers, list) else []
    return any(hmac.compare_digest(wanted.encode(), each.encode()) for each in given)
