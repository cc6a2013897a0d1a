"""The database: tables, the log of steps, counts, history, tokens, and the thread that writes."""
