"""From beliefs to plans: the Bellman operator, and the switching policies of least cost over confidence sets."""
