"""Rows: what is counted, stored by layer and name, and the working tables in which it grows."""
