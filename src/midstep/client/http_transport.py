"""`Transport`: HTTP requests over TCP or a Unix socket, with the standard library only."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from midstep.client.number_conversion import convert_numbers
from midstep.client.token_proof import check_proofs, new_challenge
from midstep.core import strict_json
from midstep.core.errors import ClientError, ConfigError, FormatError

MAX_PROOF_BYTES = 65_536


class Transport:
    """Sends requests to one server, each over a new connection.

    Args:
        url: base address, for example `http://127.0.0.1:8765`.
        token: the bearer token; None sends no token.
        who: `python` or `cli`; recorded in the command log.
        timeout_s: how long to wait for a response.
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
        name = f"[{self.host}]" if ":" in self.host else self.host
        self._host_header = name if self.port == 80 else f"{name}:{self.port}"
        self._socket_path = socket_path
        self._address = socket_path or f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        """Return the address; the token stays out of logs."""
        return f"Transport({self._address})"

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request; the caller reads the response and closes the connection.

        The token is sent only after the server has proved on this connection that it knows it.
        """
        connection = self._connection()
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{path}?{urlencode(given)}" if given else path
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        try:
            if self.token:
                self._check_server(connection, self.token)
            connection.request(method, target, body=data, headers=self._headers(method, headers))
            return connection, connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ClientError(
                f"no answer from {self._address} ({error or type(error).__name__}). "
                "Is the run still alive? `midstep runs ls --live` lists the live ones."
            ) from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._socket_path is not None:
            return _SocketConnection(self._socket_path, self.host, self.timeout_s)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_s)

    def _check_server(self, connection: http.client.HTTPConnection, token: str) -> None:
        challenge = new_challenge()
        path = f"/api/v1/health?challenge={challenge}"
        connection.request("GET", path, headers={"Host": self._host_header})
        response = connection.getresponse()
        data = response.read(MAX_PROOF_BYTES)
        if response.status != 200:
            connection.close()
            raise read_refusal(response.status, data)
        try:
            health = strict_json.loads(data)
        except FormatError:
            health = None
        proofs = health.get("proofs") if isinstance(health, dict) else None
        if not check_proofs(proofs, token, challenge, self._host_header):
            connection.close()
            raise ClientError(
                f"the server at {self._host_header} does not know this token, so it was not sent. "
                "The token is wrong or was replaced, or another program has taken the port. Open "
                "the link that the run printed.",
                status=401,
                word="unproven",
            )

    def _headers(self, method: str, further: Mapping[str, str] | None) -> dict[str, str]:
        headers = {"Host": self._host_header, "X-Midstep-Who": self.who, **(further or {})}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if method != "GET":
            headers["Content-Type"] = "application/json"
        return headers

    def fetch(self, path: str, *, query: Mapping[str, Any] | None = None) -> bytes:
        """Return the bytes at a path; a refusal raises `ClientError` with its status."""
        status, data = self._read("GET", path, query=query)
        if status >= 400:
            raise read_refusal(status, data)
        return data

    def request(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Return the parsed response; a refusal raises `ClientError` with its status."""
        status, data = self._read(method, path, query=query, body=body)
        if status >= 400:
            raise read_refusal(status, data)
        return None if not data else convert_numbers(method, path, _parse_json(data))

    def _read(self, method: str, path: str, **options: Any) -> tuple[int, bytes]:
        """Return status and body of a response."""
        connection, response = self.open(method, path, **options)
        try:
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"the response was cut off ({error})") from error
        finally:
            connection.close()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket; `host` is only sent as the `Host` header."""

    def __init__(self, path: str, host: str, timeout_s: float) -> None:
        super().__init__(host, timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        unix_socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            unix_socket.settimeout(self.timeout)
            unix_socket.connect(self._path)
        except OSError:
            unix_socket.close()
            raise
        self.sock = unix_socket


def _parse_json(data: bytes) -> Any:
    try:
        return strict_json.loads(data)
    except FormatError as error:
        raise ClientError(f"the server's response is not JSON ({error})") from None


def read_refusal(status: int, data: bytes) -> ClientError:
    """Return the error for a refused request, with the message of the server."""
    try:
        problem = strict_json.loads(data)
        message, word = str(problem["message"]), problem.get("error")
    except (AttributeError, FormatError, KeyError, TypeError):
        message, word = f"the server answered {status}", None
    return ClientError(message, status=status, word=word)
