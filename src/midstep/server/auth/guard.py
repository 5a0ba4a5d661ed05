"""The guard: ASGI middleware in front of every route. It denies by default.

Order of the checks: Host, Origin, Sec-Fetch-Site, then the token, then the type of a write.
A request that fails one of them reaches no route, and its body is not read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from midstep.server.auth.body_check import check_body
from midstep.server.auth.tokens import KeptTokens, Role, Tokens
from midstep.server.problems import VIEW_ONLY, Refusal, incident_answer
from midstep.server.static_files import is_page_path


class WrongTokenCounter:
    """Counts wrong tokens by address.

    The count only changes the response to further wrong tokens. A right token is accepted from any
    address: guessing 256 bits is hopeless, and all users of a host share 127.0.0.1, so blocking the
    address would let any of them lock the owner out.

    Args:
        limit: further wrong tokens are answered with 429.
        window_s: after this long without a wrong one the count starts again.
        addresses: how many addresses are remembered. The bound keeps memory flat when requests
            come from many addresses; the least recent one is dropped.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        limit: int,
        window_s: float = 60.0,
        addresses: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit, self.window_s, self.addresses = limit, window_s, addresses
        self._clock = clock
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, address: str) -> bool:
        """Count a wrong token. Returns whether the address is over its limit."""
        count, last = self._seen.pop(address, (0, 0.0))
        now = self._clock()
        count = 1 if now - last > self.window_s else count + 1
        self._seen[address] = (count, now)
        while len(self._seen) > self.addresses:
            self._seen.popitem(last=False)
        return count > self.limit


LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
BODY_S = 30.0
"""Time for a whole body. Without it a caller that sends one byte a minute would hold a connection
and up to 1 MiB for ever."""
READS = frozenset({"GET", "HEAD"})
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SUBSCRIBE = re.compile(r"(/api/v1/runs/[^/]+)?/debug/streams/[^/]+/subscriptions")
"""The one write of a viewer, by PUT: it names what a stream shows and changes no training state."""
# Bounded, so that no long header reaches the comparison with the tokens.
_BEARER = re.compile(rb"[Bb]earer ([A-Za-z0-9_-]{1,256})")
_JSON = re.compile(rb"application/json\s*(;\s*charset=\"?utf-8\"?\s*)?", re.IGNORECASE)

# The page loads nothing from elsewhere and runs no inline script, so a label or a file name that
# contains HTML cannot run code with the token of the user.
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        # Sounds are made in the page, of numbers: no file of the server, none from elsewhere.
        "media-src blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": CONTENT_POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=()",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }.items()
)


@dataclass(frozen=True, kw_only=True)
class GuardConfig:
    """What the guard accepts."""

    tokens: Tokens | KeptTokens
    """The two tokens of the outputs folder."""
    read_only: bool = False
    """Refuse every write, also with the control token."""
    allowed_hosts: tuple[str, ...] = ()
    """Further exact `Host` values with port, for a forwarded port or a server that other machines
    reach."""
    max_body_bytes: int = 1 << 20
    """Longest request body. The largest useful one, 10,000 sample ids of a breakpoint, has about
    200 kB."""
    max_wrong_tokens: int = 200
    """Further wrong tokens from one address within a minute are answered with 429."""
    max_connections_per_address: int = 200
    """Open connections of one address with a valid token; further ones are closed at once. One
    program that leaks connections leaves room for others."""
    max_connections: int = 600
    """Open connections of all addresses. Each takes a file descriptor of the training process,
    which usually has 1,024."""
    max_connections_without_token: int = 64
    """Open connections on which no request had a valid token so far. They count for none of the
    other limits; if there are more, the oldest is closed. A page opens six at most."""


class Guard:
    """ASGI middleware that refuses every request that is not explicitly allowed."""

    def __init__(self, app: ASGIApp, *, config: GuardConfig) -> None:
        self.app, self.config = app, config
        self._wrong_tokens = WrongTokenCounter(limit=config.max_wrong_tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, then pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _Headed(send))
        else:  # a websocket: the page uses server-sent events, which send the token in a header
            await send({"type": "websocket.close", "code": 1008, "reason": "no websockets here"})

    async def _http(self, scope: Scope, receive: Receive, send: _Headed) -> None:
        try:
            self._admit(scope)
            if scope["method"] in WRITES:
                receive = await self._checked_body(scope, receive)
            await self.app(scope, receive, send)
        except Refusal as refusal:
            headers = {"retry-after": "60"} if refusal.status == 429 else {}
            if refusal.status == 401:
                headers["www-authenticate"] = "Bearer"
            # The rest of the body is not read, so the start of the next request is not known.
            if refusal.status in (408, 413):
                headers["connection"] = "close"
            await refusal.answer(headers)(scope, receive, send)
        except Exception as error:  # logged with an id; the caller gets only that id
            if send.started:
                raise
            await incident_answer(error, scope["method"])(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        """Check the headers and put the role into the scope.

        Raises:
            Refusal: the request is not allowed.
        """
        headers = scope["headers"]
        host = _check_host(scope, headers, self.config.allowed_hosts)
        _check_origin(headers, host)
        _check_site(headers)
        # The page must load before it can send the token, which is in the fragment of its address.
        if scope["method"] in READS and is_page_path(scope["path"]):
            return
        # Clients check the server here before they send their token.
        if scope["method"] in READS and scope["path"] == "/api/v1/health":
            return
        role = self._role(scope, headers)
        _keep_connection(scope)
        if self.config.read_only:
            role = "viewer"
        scope.setdefault("state", {})["midstep_role"] = role
        if scope["method"] in READS:
            return
        if scope["method"] not in WRITES:
            raise Refusal(405, "method", "Use GET, POST, PUT, PATCH or DELETE.")
        subscribes = scope["method"] == "PUT" and SUBSCRIBE.fullmatch(scope["path"]) is not None
        if not subscribes:
            self._check_may_write(role)
        _check_content_type(scope["method"], headers)

    def _check_may_write(self, role: Role) -> None:
        if self.config.read_only:
            message = (
                "This server is read-only. Start midstep serve without --read-only to change a run."
            )
            raise Refusal(403, "read_only", message)
        if role != "control":
            raise Refusal(403, "view_only", VIEW_ONLY)

    def _role(self, scope: Scope, headers: Iterable[tuple[bytes, bytes]]) -> Role:
        given = _all(headers, b"authorization")
        if not given:
            raise Refusal(401, "token", "The token is missing. Send it: Authorization: Bearer …")
        match = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        role = self.config.tokens.role(match[1].decode()) if match else None
        if role is not None:
            return role
        if self._wrong_tokens.note(_address(scope)):
            raise Refusal(429, "too_many", "Too many wrong tokens from this host. Wait a minute.")
        message = "The token is wrong or was replaced. Open the link that the run printed."
        raise Refusal(401, "token", message)

    async def _checked_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read and check the body. Returns a `receive` that gives it to the route again."""
        limit = self.config.max_body_bytes
        length = _all(scope["headers"], b"content-length")
        # Only 20 digits are converted: `int` raises for more than 4,300.
        if length and length[0].isdigit() and int(length[0][:20]) > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(BODY_S):
                body = await _read(receive, limit)
        except TimeoutError:
            raise Refusal(408, "slow", f"The body did not arrive within {BODY_S:.0f} s.") from None
        if body is None:
            return replay({"type": "http.disconnect"})
        check_body(body)
        return replay({"type": "http.request", "body": body, "more_body": False}, receive)


class _Headed:
    """A `send` that adds the security headers, and `no-store` where a route set no caching."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = list(message.get("headers", ())) + list(HEADERS)
            if not _all(headers, b"cache-control"):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await self._send(message)


def _keep_connection(scope: Scope) -> None:
    """Tell the protocol (`h11_limits`) that a request on this connection had a valid token."""
    keep = scope.get("state", {}).get("midstep_keep")
    if keep is not None:
        keep()


def _all(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    """All values of a header. Callers refuse a repeated one, because a proxy and this server may
    each read another value.
    """
    return [value for key, value in headers if key.lower() == name]


def _check_host(scope: Scope, headers: Any, allowed: tuple[str, ...]) -> str:
    """The Host, which must be exactly one of ours.

    This stops DNS rebinding: a foreign page whose name is made to resolve to 127.0.0.1 sends its
    own name as Host.
    """
    given = _all(headers, b"host")
    host = given[0].decode("latin-1") if len(given) == 1 else ""
    if host not in (*_own_hosts(scope), *allowed) and not _is_forwarded(scope, host):
        raise Refusal(403, "host", "This server answers only under the address it printed.")
    return host


def _own_hosts(scope: Scope) -> tuple[str, ...]:
    """Our names with the port of the socket that the request arrived on."""
    server = scope.get("server")
    port = server[1] if server else None
    if port is None:
        return LOOPBACK_NAMES
    named = tuple(f"{name}:{port}" for name in LOOPBACK_NAMES)
    # Browsers leave port 80 out.
    return named + LOOPBACK_NAMES if port == 80 else named


def _is_forwarded(scope: Scope, host: str) -> bool:
    """Whether the request came over a Unix socket, to which SSH forwards any port of the user."""
    server = scope.get("server")
    is_unix_socket = server is not None and server[1] is None
    return is_unix_socket and _LOOPBACK_HOST.fullmatch(host) is not None


def _check_origin(headers: Any, host: str) -> None:
    # Programs send no Origin; a browser sends one with every write, also to another site.
    origins = _all(headers, b"origin")
    if origins and origins != [f"http://{host}".encode("latin-1")]:
        raise Refusal(403, "origin", "Requests from other pages are refused.")


def _check_site(headers: Any) -> None:
    # Browsers set this header themselves, also for requests without Origin such as images.
    sites = _all(headers, b"sec-fetch-site")
    if any(site not in (b"same-origin", b"none") for site in sites):
        raise Refusal(403, "site", "Requests from other sites are refused.")


def _check_content_type(method: str, headers: Any) -> None:
    """A write must be JSON, which no HTML form of a foreign page can send.

    A DELETE without a body needs no type, because forms cannot send DELETE.
    """
    types = _all(headers, b"content-type")
    has_no_body = not types and not _all(headers, b"transfer-encoding")
    if method == "DELETE" and has_no_body and _all(headers, b"content-length") in ([], [b"0"]):
        return
    if len(types) != 1 or not _JSON.fullmatch(types[0].strip()):
        raise Refusal(415, "content_type", "Send Content-Type: application/json.")


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The whole body; None when the caller disconnected. The limit holds for chunked bodies too."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"The body is larger than {limit:,} bytes.")


def replay(message: Message, rest: Receive | None = None) -> Receive:
    """A `receive` that gives `message` once, then what `rest` gives."""
    pending = [message]

    async def receive() -> Message:
        if pending:
            return pending.pop()
        return await rest() if rest is not None else {"type": "http.disconnect"}

    return receive
