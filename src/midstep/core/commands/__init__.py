"""Commands of a run: each is defined once here, and every interface is derived from that."""
