"""The Data page: datasets under the data roots."""
