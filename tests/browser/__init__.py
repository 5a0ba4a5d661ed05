"""The page in a real browser. A package, so that a fixture can last for these tests only."""
