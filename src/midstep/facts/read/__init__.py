"""Reading facts: records, tails, series, tables."""
