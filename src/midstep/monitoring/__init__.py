"""Figures of a run, drawn from its facts while it trains and afterwards."""
