"""What a learner knows, in a form for people: bounds on costs and estimates of them, explanations of choices, summaries."""
