"""Weights of trained models: the frequencies they use, and which rows form rotary pairs."""
