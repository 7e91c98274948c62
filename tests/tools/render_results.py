"""Write summaries and pictures of kept results, without training: `make -C figures summaries`."""

import gzip
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pefourier.pages.training import read_train_folder
from pefourier.train.run import write_summary
from pefourier.train.store import Store


def render(folder):
    """Write summary.json, summary.md and pictures of a folder from its results.jsonl.gz."""
    with TemporaryDirectory() as unpacked:
        copy = Path(unpacked)
        shutil.copy(folder / "config.json", copy)
        results = gzip.decompress((folder / "results.jsonl.gz").read_bytes())
        (copy / "results.jsonl").write_bytes(results)
        write_summary(Store(copy), read_train_folder(unpacked).summary)
        for file in (copy / "summary.json", copy / "summary.md", *copy.glob("*.png")):
            shutil.copy(file, folder)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        render(Path(name))
