"""A text that can be learned, and a loader whose order is a function of the sample's number alone."""

import json

import numpy as np

CONTEXT = 8  # bytes that the model sees
SPAN = 24  # bytes of a sample that it is trained on


def text(size=400_000, seed=11):
    """Sentences of a small made-up language: words of a Zipf law, each with its own few successors."""
    rng = np.random.default_rng(seed)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]
    words = ["".join(rng.choice(syllables, rng.integers(1, 4))) for _ in range(150)]
    successors = rng.integers(0, 150, (150, 6))
    out, length, word = [], 0, 0
    while length < size:
        end = rng.random() < 0.12
        out.append(words[word] + (".\n" if end else " "))
        length += len(out[-1])
        word = successors[word, min(int(rng.zipf(1.7)) - 1, 5)]
    return np.frombuffer("".join(out).encode()[:size], np.uint8)


class Loader:
    """Batches in order. Samples of the poisoned range are random bytes; those of the skip list are left out."""

    def __init__(self, batch, poisoned=(0, 0), skip=()):
        self.text, self.batch = text(), batch
        self.poisoned, self.skip = poisoned, [tuple(r) for r in skip]

    def sample(self, number):
        """The bytes of a sample, whoever asks and whenever: nothing but its number decides."""
        rng = np.random.default_rng([5, number])
        if self.poisoned[0] <= number < self.poisoned[1]:
            return rng.integers(0, 256, CONTEXT + SPAN).astype(np.uint8)
        start = rng.integers(0, len(self.text) - CONTEXT - SPAN)
        return self.text[start : start + CONTEXT + SPAN]

    def numbers(self, step):
        """The samples of a step, counted from 1, without those that are to be left out."""
        first = (step - 1) * self.batch
        inside = lambda n: any(a <= n < b for a, b in self.skip)
        return [n for n in range(first, first + self.batch) if not inside(n)]


def skip_list(path):
    """The samples of a skip list as whyspike writes it (schemas/skip-list.json)."""
    with open(path) as f:
        skip = json.load(f)
    if skip["schema"] != 1:
        raise ValueError(f"{path}: schema {skip['schema']} is not known")
    return skip["samples"]
