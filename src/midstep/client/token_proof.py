"""A server proves that it knows the token before the client sends the token.

Another user of the host may have taken the port that a run had, and would collect the token. So the
server must first return a keyed hash of a fresh number. The hash also covers the address of the
request, so that a false server cannot pass the challenge on to the real one.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets


def new_challenge() -> str:
    """Return a fresh random number as text."""
    return secrets.token_urlsafe(24)


def make_proof(token: str, challenge: str, host: str) -> str:
    """Return the keyed hash that only a server with this token can compute.

    Args:
        token: the secret key.
        challenge: what `new_challenge` returned.
        host: the `Host` header of the request, for example `127.0.0.1:8765`.

    >>> len(make_proof("secret", "abc", "127.0.0.1:8765"))
    64
    """
    message = f"midstep proof 1\n{host}\n{challenge}".encode()
    return hmac.new(token.encode(), message, hashlib.sha256).hexdigest()


def check_proofs(proofs: object, token: str, challenge: str, host: str) -> bool:
    """Return whether one of a server's proofs is right; it sends one for each of its tokens."""
    expected = make_proof(token, challenge, host).encode()
    texts = [each for each in proofs if isinstance(each, str)] if isinstance(proofs, list) else []
    # compare_digest takes the same time wherever two texts differ, so timing reveals nothing.
    return any(hmac.compare_digest(expected, each.encode()) for each in texts)
