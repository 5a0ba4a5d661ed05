"""Who may send requests: guard, tokens, request bodies, redaction."""
