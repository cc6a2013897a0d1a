"""What a learner knows, for people: bounds on costs, explanations, summaries."""
