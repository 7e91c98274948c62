"""A folder of results in which one file is changed at random.

The changed folder must give the answer of the original, or one line and exit status 2. Numbers
changed within their range are not tried, because no program can detect them.
"""

import json
import random
import shutil

from fuzz import ODD, alter, printed

SIZES = "--dataset order:count=20,length=4 --steps 1 --seeds 2 --d 8 --heads 2 -e none -e dft"
TASK = f"train {SIZES} --quiet --resume --json --out".split()


def untimed(answer):
    """Return results without the times of runs, which retraining changes."""
    return [record | {"step_seconds": None} for record in json.loads(answer)["results"]]


def mangled(rng, content):
    """Return the bytes with some removed, inserted or flipped."""
    start = rng.randrange(len(content))
    before, after = content[:start], content[start:]
    high = bytes(rng.choices(range(128, 256), k=3))
    flipped = before + bytes([content[start] ^ 128]) + after[1:]
    return rng.choice([before, after, before + high + after, b"[" * 100_000, flipped])


def tamper(folder, rng):
    """Change one file of a folder of results."""
    file, injection = folder / rng.choice(["config.json", "results.jsonl"]), rng.randrange(8)
    if injection == 0:
        file.write_bytes(mangled(rng, file.read_bytes()))
        return
    text, lined = file.read_text(), file.suffix == ".jsonl"
    rows = [json.loads(row) for row in (text.splitlines() if lined else [text])]
    if injection == 1 and lined:
        rows.append(rng.choice(rows))
    else:
        alter(rng, rng.choice(rows), ODD)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def fault(whole, seed):
    """Return how the answer to a tampered copy of a folder is wrong, or None."""
    folder = whole.with_name(f"tampered{seed}")
    shutil.copytree(whole, folder)
    tamper(folder, random.Random(seed))
    status, out, err = printed([*TASK, str(folder)])
    if status == 0 and untimed(out) == untimed(printed([*TASK, str(whole)])[1]):
        return None
    plain = status == 2 and out == "" and err.count("\n") == 1 and len(err) < 800
    return None if plain else f"seed {seed}: status {status}, {out[:300]} {err[:300]}"
