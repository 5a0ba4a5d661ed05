"""The HTTP client that twins every button; standard library only."""

from midstep.client.client import Client

__all__ = ["Client"]
