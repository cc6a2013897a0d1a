"""Steps: the record type, its validator, the cost of a step; the episode loop; records and logs read into steps."""
