"""Measurements of speed, and of quality at speed. Each module prints a table of what it ran."""
