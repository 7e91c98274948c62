"""Record what the attention of a running torch module gets of positions, and check it."""
