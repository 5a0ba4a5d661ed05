"""What has a time in it: `make bench`."""
