"""One HTTP request at a time, with the token, over the standard library."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from midstep.client.proof import new_challenge, proves
from midstep.core import strict_json
from midstep.core.errors import ClientError, ConfigError, FormatError

__all__ = ["Transport", "with_floats"]

MOST_PROOF_BYTES = 65_536
_NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TEXT = frozenset(
    {"command", "error", "id", "key", "message", "name", "prompt", "response", "run", "words"}
) | {"directory", "note", "path", "tags", "text", "why"}
"""Fields that are text, also when the text is `NaN`."""


def with_floats(value: Any) -> Any:
    """`value` with the strings that stand for NaN and the infinities as floats again.

    >>> with_floats({"loss": "Infinity", "name": "NaN"})
    {'loss': inf, 'name': 'NaN'}
    """
    if isinstance(value, str):
        return _NON_FINITE.get(value, value)
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    if isinstance(value, dict):
        return {k: v if k in _TEXT else with_floats(v) for k, v in value.items()}
    return value


class Transport:
    """Where the server is and what to show it.

    Args:
        url: base address, for example `http://127.0.0.1:8765`.
        token: the bearer token.
        who: `python` or `cli`; stands in the command log.
        timeout_s: how long to wait for an answer.
        socket_path: the Unix socket to connect to, instead of the host and port of `url`.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        who: str = "python",
        timeout_s: float = 30.0,
        socket_path: str | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(f"expected an address like http://127.0.0.1:8765, got {url!r}")
        self.host, self.port = parts.hostname, parts.port or 80
        self.token, self.who, self.timeout_s = token, who, timeout_s
        named = f"[{self.host}]" if ":" in self.host else self.host
        self._named = named if self.port == 80 else f"{named}:{self.port}"
        self._socket_path = socket_path
        self._place = socket_path or f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """The address; the token stays out of logs."""
        return f"Transport({self._place})"

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request; the caller reads the answer and closes the connection.

        The token goes only to a server that has proved, on this very connection, to know it.
        """
        connection = self._connection()
        asked = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(asked)}" if asked else path
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        try:
            if self.token:
                self._demand_proof(connection, self.token)
            connection.request(method, target, body=data, headers=self._headers(method, headers))
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ClientError(
                f"no answer from {self._place} ({error or type(error).__name__}). "
                "Is the run still there? `midstep ctl state` finds the live ones."
            ) from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._socket_path is not None:
            return _SocketConnection(self._socket_path, self.host, self.timeout_s)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)

    def _demand_proof(self, connection: http.client.HTTPConnection, token: str) -> None:
        challenge = new_challenge()
        path = f"/api/v1/health?challenge={challenge}"
        connection.request("GET", path, headers={"Host": self._named})
        answer = connection.getresponse()
        data = answer.read(MOST_PROOF_BYTES)
        if answer.status != 200:
            connection.close()
            raise refusal(answer.status, data)
        try:
            told = strict_json.loads(data)
        except FormatError:
            told = None
        answers = told.get("proofs") if isinstance(told, dict) else None
        if not proves(answers, token, challenge, self._named):
            connection.close()
            raise ClientError(
                f"the server at {self._named} does not know this token, so it was not sent. The "
                "token is wrong or was replaced, or another program has taken the port: open the "
                "link that the run printed.",
                status=401,
                word="unproven",
            )

    def _headers(self, method: str, further: Mapping[str, str] | None) -> dict[str, str]:
        made = {"Host": self._named, "X-Midstep-Who": self.who, **(further or {})}
        if self.token:
            made["Authorization"] = f"Bearer {self.token}"
        if method != "GET":
            made["Content-Type"] = "application/json"
        return made

    def fetch(self, path: str) -> bytes:
        """The bytes at an address; a refusal is a `ClientError` with its status."""
        status, data = self._read("GET", path)
        if status >= 400:
            raise refusal(status, data)
        return data

    def ask(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """The parsed answer; a refusal is a `ClientError` with its status."""
        status, data = self._read(method, path, query=query, body=body)
        if status >= 400:
            raise refusal(status, data)
        return None if not data else with_floats(_parsed(data))

    def _read(self, method: str, path: str, **how: Any) -> tuple[int, bytes]:
        """Status and body of an answer."""
        connection, answer = self.open(method, path, **how)
        try:
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"the answer broke off ({error})") from error
        finally:
            connection.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket; `host` is only the name that is asked for."""

    def __init__(self, path: str, host: str, timeout_s: float) -> None:
        super().__init__(host, timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self._path)
        except OSError:
            made.close()
            raise
        self.sock = made


def _parsed(data: bytes) -> Any:
    try:
        return strict_json.loads(data)
    except FormatError as error:
        raise ClientError(f"the server's answer is not JSON ({error})") from None


def refusal(status: int, data: bytes) -> ClientError:
    """The error for a refused request: the server's own words."""
    try:
        told = strict_json.loads(data)
        message, word = str(told["message"]), told.get("error")
    except (AttributeError, FormatError, KeyError, TypeError):
        message, word = f"the server answered {status}", None
    return ClientError(message, status=status, word=word)
