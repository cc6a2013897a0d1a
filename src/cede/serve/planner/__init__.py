"""Plans: what they are made from, the planner that makes them, the cache that answers decisions, and estimates."""
