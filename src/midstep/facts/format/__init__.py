"""The format on disk: names of files, bytes of records, and scanners that check them."""
