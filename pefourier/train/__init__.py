"""The empirical comparison: transformers trained with each encoding on the same batches."""

import os

# Waiting threads would otherwise spin; if others use the cores too, that costs several times what
# it gains. OpenMP reads this when torch is loaded, which the modules below do.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
