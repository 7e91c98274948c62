"""The empirical comparison: transformers trained with each encoding on the same batches."""

import os

# Threads that wait for one another would otherwise spin: where others use the cores too, that costs
# several times what it gains. The threads read this when torch is loaded, which the rooms below do.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
