"""The empirical comparison: transformers trained with each encoding on the same data and batches."""
