"""Changes of the database's schema, in the order of their numbers. What was released is never edited."""
