"""Sockets, ports and the server thread."""
