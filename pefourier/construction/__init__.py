"""How tables, rotations and biases are made, step by step, and which steps of two differ."""
