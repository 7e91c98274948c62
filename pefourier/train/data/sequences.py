"""Tasks of next tokens, as in Kazemnejad et al. (2023): trained on short problems, tested on long.

Conventions
-----------
A problem of size n is a token that begins it, a prompt, a mark, and an answer; a model sees all but
the answer's last token, and is asked for the answer. Without positions it can count by the first
token, which is where the theory of NoPE has its positions from. Tokens are one-hot channels; behind
the end there are none.
``copy`` and ``reverse`` have n symbols, ``addition`` two numbers of n digits (the sum has n + 1),
``parity`` n bits and one token of answer, ``recall`` n pairs of a key and a value, of which a key
is asked for. In training n is drawn from 1 to the length, in a test it is that length.
"""

from collections.abc import Callable

import numpy as np

from pefourier.train.data.split import Fold, Task
from pefourier.train.metrics import UNASKED

SYMBOLS = 10  # digits, values, and what is copied
KEYS = 64  # most pairs of recall
MARK = SYMBOLS  # "=": what follows is the answer
PLUS = SYMBOLS + 1
BEGIN = SYMBOLS + 2
OTHERS = SYMBOLS + 3  # keys of recall begin here
Problem = tuple[list[int], list[int]]  # prompt, answer


def copy(rng: np.random.Generator, n: int) -> Problem:
    """The same symbols again."""
    symbols = rng.integers(0, SYMBOLS, n).tolist()
    return symbols, symbols


def reverse(rng: np.random.Generator, n: int) -> Problem:
    """The symbols from the last to the first."""
    symbols = rng.integers(0, SYMBOLS, n).tolist()
    return symbols, symbols[::-1]


def addition(rng: np.random.Generator, n: int) -> Problem:
    """The sum of two numbers, all with their highest digit first."""
    a, b = rng.integers(0, SYMBOLS, (2, n)).tolist()
    total = sum((x + y) * 10**i for i, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=True)))
    return [*a, PLUS, *b], [int(digit) for digit in f"{total:0{n + 1}d}"]


def parity(rng: np.random.Generator, n: int) -> Problem:
    """Whether ones are odd in number."""
    bits = rng.integers(0, 2, n).tolist()
    return bits, [sum(bits) % 2]


def recall(rng: np.random.Generator, n: int) -> Problem:
    """The value that stood behind a key."""
    keys = (OTHERS + rng.permutation(KEYS)[:n]).tolist()
    values = rng.integers(0, SYMBOLS, n).tolist()
    asked = int(rng.integers(n))
    pairs = [token for pair in zip(keys, values, strict=True) for token in pair]
    return [*pairs, keys[asked]], [values[asked]]


TASKS: dict[str, Callable[[np.random.Generator, int], Problem]] = {
    one.__name__: one for one in (copy, reverse, addition, parity, recall)
}


def guessed(name: str, n: int) -> float:
    """Share of answers that are right where the likeliest is given without a look at the order.

    Of ``recall`` that is the value that stands most often in the prompt (4,000 prompts are drawn).

    >>> guessed("parity", 16), guessed("addition", 2), round(guessed("recall", 2), 2)
    (0.5, 0.01, 0.55)
    """
    if name != "recall":
        return 0.5 if name == "parity" else float(SYMBOLS) ** -n
    values = np.random.default_rng(0).integers(0, SYMBOLS, (4000, n, 1))
    return float((values == np.arange(SYMBOLS)).sum(axis=1).max(axis=1).mean() / n)


def tokens_of(name: str, n: int) -> int:
    """Tokens of a problem of size n, but the last of its answer.

    >>> tokens_of("copy", 4), tokens_of("parity", 4), tokens_of("addition", 2)
    (9, 6, 9)
    """
    prompt, answer = TASKS[name](np.random.default_rng(0), n)
    return 1 + len(prompt) + len(answer)


def draw_problems(
    name: str, sizes: np.ndarray, most: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens one-hot (count, T, V) and targets (count, T) of problems of these sizes up to `most`.

    >>> x, y = draw_problems("copy", np.array([2]), 3, 0)
    >>> x.shape, x[0].argmax(axis=1)[:5].tolist(), y[0].tolist()
    ((1, 7, 13), [12, 8, 6, 10, 8], [-1, -1, -1, 8, 6, -1, -1])
    """
    rng, length = np.random.default_rng(seed), tokens_of(name, most)
    width = OTHERS + (KEYS if name == "recall" else 0)
    x = np.zeros((len(sizes), length, width), np.float32)
    y = np.full((len(sizes), length), UNASKED, np.int64)
    for row, n in enumerate(sizes.tolist()):
        prompt, answer = TASKS[name](rng, n)
        seen = [BEGIN, *prompt, MARK, *answer[:-1]]
        x[row, np.arange(len(seen)), seen] = 1
        y[row, 1 + len(prompt) : len(seen)] = answer
    return x, y


def draw_task(name: str, length: int, count: int) -> Task:
    """Problems of sizes up to a length to train on, a fifth of them beside to validate.

    What is called its test part is that of the longest of them.
    """
    rng, tested = np.random.default_rng(length), max(1, count // 5)
    drawn = rng.integers(1, length + 1, count + tested)
    x, y = draw_problems(name, np.append(drawn, np.full(tested, length)), length, 1)
    at, width = np.arange(len(x)), x.shape[2]
    fold = Fold(*np.split(at, [count, count + tested]), np.zeros(width), np.ones(width))
    classes = tuple(map(str, range(width)))
    rows, tokens = x.reshape(-1, width), x.shape[1]
    return Task(name, "drawn", rows, at * tokens, y, tokens, classes, (fold,))
