"""What a learner knows, in a form for people: bounds on costs, explanations of choices, summaries."""
