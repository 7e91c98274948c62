"""The empirical comparison: transformers trained with each encoding on the same batches."""
