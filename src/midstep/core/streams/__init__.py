"""Standard streams: copies of what is printed on them."""
