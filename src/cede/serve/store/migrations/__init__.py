"""Migrations of the schema, by number. A released migration is never edited."""
