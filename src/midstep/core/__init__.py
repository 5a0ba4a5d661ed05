"""Parts that every room uses: errors, ids, files, random streams, JSON, protocols, moments."""
