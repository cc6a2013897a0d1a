"""From beliefs to plans: confidence sets around tables of probabilities, and the switching policies of least cost under them."""
