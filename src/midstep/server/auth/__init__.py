"""Who may ask: guard, tokens, request bodies, redaction."""
