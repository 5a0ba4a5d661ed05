"""Files on disk: atomic replacement, folders that appear whole, files of strangers."""
