"""The weights of a trained model: which frequencies they use, and which of their rows are pairs."""
