"""What is controlled: environments, agents, teams, what a learner is told of them, and what may be declared."""
