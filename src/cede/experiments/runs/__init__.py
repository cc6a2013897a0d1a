"""The runs that figures are made of: worlds, learners, and what is measured."""
