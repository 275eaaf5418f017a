"""A real small training run: numpy alone, seconds on one core."""

import os

# One thread: small products are slower on several, and sums would depend on how many there are.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
