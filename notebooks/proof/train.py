"""Trains the model: a log of JSON lines, a checkpoint every so many steps, resumes, and a skip list that is obeyed."""

import json

import numpy as np

from proof.data import Loader, skip_list
from proof.model import Model

BATCH, PEAK_LR, WARMUP = 32, 3e-3, 50


def rate(step):
    return PEAK_LR * min(1.0, step / WARMUP)


def train(folder, log, until, save_every=50, poisoned=(0, 0), resume=None, skip=None):
    """Runs to a step and returns the numbers of the samples it was trained on, step by step.

    A step all of whose samples are left out makes no update and no line in the log, and the counter goes on: steps name
    the same data as before.
    """
    loader = Loader(BATCH, poisoned, skip_list(skip) if skip else ())
    model = Model()
    step = model.load(resume) if resume else 0
    used = {}
    with open(log, "a") as out:
        while step < until:
            step += 1
            numbers = loader.numbers(step)
            if numbers:
                loss, gradient = model.loss(np.stack([loader.sample(n) for n in numbers]))
                norms = model.update(gradient, rate(step))
                used[step] = numbers
                row = {"step": step, "loss": loss, **norms, "learning_rate": rate(step), "consumed_samples": step * BATCH}
                out.write(json.dumps(row) + "\n")
            if step % save_every == 0 and not resume:
                model.save(folder / f"checkpoint-{step}", step, step * BATCH)
    return used
