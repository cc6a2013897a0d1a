"""Rows: counts, stored by layer and name, and the working tables in which they grow."""
