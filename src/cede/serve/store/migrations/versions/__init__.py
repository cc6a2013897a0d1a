"""One file for each schema."""
