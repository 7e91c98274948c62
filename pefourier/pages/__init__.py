"""What is told on a page of HTML? Encodings side by side, and folders of training."""
