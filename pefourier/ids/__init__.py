"""Position ids of a batch: reading, expected values, masks."""
