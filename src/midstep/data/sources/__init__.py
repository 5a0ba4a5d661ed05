"""Sets of real data that come inside packages, read by name."""
