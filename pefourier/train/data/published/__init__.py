"""Published datasets, one a file: `--dataset` knows its `SOURCE` by the name of the file."""
