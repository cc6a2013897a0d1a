"""Steps: the record of what happened, its validator, what a step costs; the loop of a run; records and logs read into steps."""
