"""The program: what is typed, which function answers it, and where the answer goes."""
