#!/usr/bin/env python3
"""Measures how well incidents are found and dated, beside the rules that trainers and log tools use.

    detection.py --bin target/release/whyspike --lab LAB --corpus CORPUS [--parts abcde] [--out DIR]

Five parts, each on inputs of its own (benches/DETECTION.md says how they are made and what is counted):

  a  labelled training runs (folders with log.jsonl.gz and truth.json), acute and chronic incidents apart
  b  the labelled spikes of a Mixtral 8x7B run
  c  quiet logs: false incidents, also when the log is diagnosed again and again as it grows
  d  injected shapes on quiet real curves
  e  generated runs of a million steps

The other rules live in this file alone; the product does not contain them. Needs numpy; `--pelt` needs ruptures.
Seeds are fixed: two runs with the same binary and inputs print the same tables, wall times apart.
"""
import argparse
import concurrent.futures
import csv
import gzip
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from statistics import median

import numpy as np

MERGE_STEPS = 50  # hits of a rule closer than this are one event
PREFIXES = (0, 1, 2, 3, 5, 10, 20, 50, 100, 200)  # rows after the onset at which a growing log is diagnosed
ACTIONS = ("rollback", "rollback-and-skip", "stop")  # plans that ask somebody to act
OURS = "whyspike"


# ---------------------------------------------------------------- what is compared


@dataclass
class Truth:
    """An event that is known to be there. Steps are the log's own; the interval includes both ends."""

    name: str
    onset: float
    start: float
    end: float
    kind: str = "acute"
    shapes: tuple = ()
    size: float = math.nan  # highest excess, in sd of one row
    length: float = math.nan


@dataclass
class Found:
    """An event that a detector reports."""

    onset: float
    end: float
    first: float  # step of the first alarm
    shape: str = ""
    acts: bool = False
    size: float = math.nan
    text: str = ""
    signal: str = "loss"


@dataclass
class Series:
    """The loss of a log, row by row, and the gradient norm where there is one."""

    step: np.ndarray
    loss: np.ndarray
    norm: np.ndarray = None

    def __len__(self):
        return len(self.step)

    def spacing(self):
        return float(np.median(np.diff(self.step))) if len(self) > 1 else 1.0


# ---------------------------------------------------------------- the rules of others
# Each takes the values of one signal and gives the rows at which it fires. A value that is not finite never enters a
# window and never fires, except where the rule says so: that is kinder to the rules than their sources are.


def windows(y, size, least):
    """Mean, population sd and count of the `size` values before each row; NaN until `least` values are there."""
    ok = np.isfinite(y)
    v = np.where(ok, y, 0.0)
    # Centred, so that the sum of squares keeps its digits.
    centre = float(np.median(y[ok])) if ok.any() else 0.0
    v = np.where(ok, v - centre, 0.0)
    zero = np.zeros(1)
    n, s, q = (np.concatenate([zero, np.cumsum(a)]) for a in (ok.astype(float), v, v * v))
    at = np.arange(len(y))
    low = np.maximum(0, at - size)
    count = n[at] - n[low]
    with np.errstate(all="ignore"):
        mean = (s[at] - s[low]) / count
        sd = np.sqrt(np.maximum(0.0, (q[at] - q[low]) / count - mean * mean))
    mean, sd = np.where(count >= least, mean + centre, np.nan), np.where(count >= least, sd, np.nan)
    return mean, sd, count


def sigma_rule(y, size, times, least):
    mean, sd, _ = windows(y, size, least)
    with np.errstate(invalid="ignore"):
        return np.flatnonzero((sd >= 1e-10) & np.isfinite(y) & (y > mean + times * sd))


def megatron(y):
    """At least 10 times the largest absolute value of the first 100 samples, which stay frozen; NaN and Inf fire."""
    first = np.abs(y[:100][np.isfinite(y[:100])])
    bound = 10.0 * first.max() if len(first) else np.inf
    with np.errstate(invalid="ignore"):
        hit = ~np.isfinite(y) | (y >= bound)
    hit[:100] &= ~np.isfinite(y[:100])
    return np.flatnonzero(hit)


def kill_loss_spike(y):
    """At least twice the mean of a window of max(100, 5 % of the run), on the fifth row in a row; or half the window
    above min(highest of the first window, 10), after two windows. What is flagged stays in the window."""
    size = max(100, len(y) // 20)
    mean, _, count = windows(y, size, size)
    with np.errstate(invalid="ignore"):
        out = (count >= size) & np.isfinite(y) & (y >= 2.0 * mean)
    streak = np.zeros(len(y), int)
    for i in np.flatnonzero(out):
        streak[i] = streak[i - 1] + 1 if i else 1
    hits = streak >= 5
    first = y[:size][np.isfinite(y[:size])]
    if len(y) > 2 * size and len(first):
        with np.errstate(invalid="ignore"):
            above = np.concatenate([[0], np.cumsum(y > min(first.max(), 10.0))])
        at = np.arange(2 * size, len(y))
        hits[at] |= (above[at + 1] - above[at + 1 - size]) >= size / 2
    return np.flatnonzero(hits)


def mad_rule(y, size=128, times=6.0, least=64):
    """Above the median of the window by so many times 1.4826 MAD; MAD is floored at 1e-12."""
    hits = []
    for low in range(least, len(y), 20_000):
        high = min(len(y), low + 20_000)
        # Rows before the window is full are looked at one by one.
        edge = max(low, min(high, size))
        for i in range(low, edge):
            w = y[:i]
            w = w[np.isfinite(w)]
            if len(w) >= least:
                m = np.median(w)
                if y[i] > m + times * max(1e-12, 1.4826 * np.median(np.abs(w - m))):
                    hits.append(i)
        if edge >= high:
            continue
        v = np.lib.stride_tricks.sliding_window_view(y[edge - size : high - 1], size)
        if np.isfinite(v).all():
            m = np.median(v, axis=1)
            s = np.median(np.abs(v - m[:, None]), axis=1)
        else:
            with np.errstate(all="ignore"):
                v = np.where(np.isfinite(v), v, np.nan)
                few = np.isfinite(v).sum(axis=1) < least
                v[few] = 0.0
                m = np.nanmedian(v, axis=1)
                s = np.nanmedian(np.abs(v - m[:, None]), axis=1)
                m[few] = np.nan
        with np.errstate(invalid="ignore"):
            fires = np.isfinite(y[edge:high]) & (y[edge:high] > m + times * np.maximum(1e-12, 1.4826 * s))
        hits.extend(np.flatnonzero(fires) + edge)
    return np.array(hits, int)


def cusum_rule(y, k=0.5, h=8.0, size=128, least=64):
    """One-sided CUSUM in sd of the previous 128 values, their mean and sd frozen while the sum is above zero; begins
    anew after an alarm. Gives the rows of the alarms and the last row at which the sum was zero before each."""
    mean, sd, _ = windows(y, size, least)
    hits, onsets = [], []
    total, mu, sigma, began = 0.0, 0.0, 1.0, 0
    values, means, sds = y.tolist(), mean.tolist(), sd.tolist()
    for i, v in enumerate(values):
        if v != v or v in (math.inf, -math.inf):
            continue
        if total <= 0.0:
            mu, sigma, began = means[i], sds[i], i
            if not sigma > 1e-10:
                continue
        total = max(0.0, total + (v - mu) / sigma - k)
        if total > h:
            hits.append(i)
            onsets.append(began)
            total = 0.0
    return np.array(hits, int), np.array(onsets, int)


PEERS = {
    "Megatron-LM 10x first 100": lambda s: megatron(s.loss),
    "KillLossSpike 2x mean, 5 in a row": lambda s: kill_loss_spike(s.loss),
    "OLMo-core 6 sd/128": lambda s: sigma_rule(s.loss, 128, 6.0, 64),
    "OLMo-core 6 sd/128, loss or norm": lambda s: either(s, lambda y: sigma_rule(y, 128, 6.0, 64)),
    "OLMo-2 7 sd/1000": lambda s: sigma_rule(s.loss, 1000, 7.0, 128),
    "median + 6 MAD/128": lambda s: mad_rule(s.loss),
    "CUSUM .5/8, frozen 128": lambda s: cusum_rule(s.loss),
}


def either(s, rule):
    hits = rule(s.loss)
    return hits if s.norm is None else np.union1d(hits, rule(s.norm))


def merged(step, hits, onsets=None, gap=MERGE_STEPS):
    """Hits merged into events: a gap of more than `gap` steps separates."""
    events = []
    for n, i in enumerate(hits):
        at, began = float(step[i]), float(step[onsets[n]] if onsets is not None else step[i])
        if events and at - events[-1].end <= gap:
            events[-1].end = at
        else:
            events.append(Found(began, at, at))
    return events


def peers_on(series, only=None):
    out = {}
    gap = max(MERGE_STEPS, 5 * series.spacing())
    for name, rule in PEERS.items():
        if only and name not in only:
            continue
        hits = rule(series)
        hits, onsets = hits if isinstance(hits, tuple) else (hits, None)
        out[name] = merged(series.step, hits, onsets, gap)
    return out


# ---------------------------------------------------------------- the product, through its command line


class Product:
    def __init__(self, binary, threads):
        self.binary, self.pool, self.calls = binary, concurrent.futures.ThreadPoolExecutor(threads), 0

    def run(self, *args, timeout=600):
        self.calls += 1
        p = subprocess.run([self.binary, *args], capture_output=True, text=True, timeout=timeout)
        if p.returncode != 0:
            raise RuntimeError(f"{' '.join(args)}: exit {p.returncode}: {p.stderr.strip()[-400:]}")
        return p.stdout

    def diagnose(self, path, *args):
        """The answer and the wall time."""
        begun = time.perf_counter()
        text = self.run("diagnose", path, "--format", "json", *args)
        return json.loads(text), time.perf_counter() - begun

    def lines(self, lines, *args):
        """Diagnoses rows of JSON."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log.jsonl")
            with open(path, "w") as f:
                f.writelines(lines)
            return self.diagnose(path, *args)[0]

    def map(self, work, items):
        return list(self.pool.map(work, items))


def incidents(doc, attempt=None):
    """The incidents of an answer that begin in an attempt up to the given one, those of the loss first."""
    out = []
    for i in doc["incidents"]:
        if attempt is not None and (i.get("attempt") or 0) > attempt:
            continue
        onset = i["onset_step"]
        ends = [onset] + [p for p in [i.get("peak_step"), *(i.get("peaks") or [])] if p is not None]
        action = (i.get("plan") or {}).get("action")
        z = i.get("score")
        text = (
            f"{i['kind']} {i['signal']} onset {onset} peak {i.get('peak_step')} return {i.get('return_step')} "
            f"{i['shape']}{' open' if i['open'] else ''} z {z if z is None else round(z, 1)} "
            f"excess {i.get('excess')} action {action}"
        )
        out.append(Found(onset, max(ends), onset, i["shape"], action in ACTIONS, z or math.nan, text, i["signal"]))
    return out


def rows_json(s, columns=None, decimals=6):
    """JSON lines of a series; `columns` are further (name, values)."""
    keys = [("loss", s.loss)] + ([("grad_norm", s.norm)] if s.norm is not None else []) + list(columns or [])
    def value(v):
        return f"{v:.{decimals}g}" if math.isfinite(v) else ("NaN" if v != v else "Infinity" if v > 0 else "-Infinity")
    cols = [(k, v.tolist()) for k, v in keys]
    return [
        '{"step": %d, %s}\n' % (step, ", ".join(f'"{k}": {value(v[i])}' for k, v in cols))
        for i, step in enumerate(s.step.tolist())
    ]


# ---------------------------------------------------------------- matching and tables


@dataclass
class Score:
    """What one detector did on one part."""

    asked: int = 0
    found: int = 0
    errors: list = field(default_factory=list)
    latency: list = field(default_factory=list)
    latency_of: list = field(default_factory=list)  # the same with the kind of the event
    late: int = 0  # found in the whole log, but not within the longest prefix
    asked_latency: int = 0
    shape_asked: int = 0
    shape_right: int = 0
    false: int = 0
    false_acts: int = 0
    false_norm: int = 0  # incidents of the gradient norm alone where nothing is
    duplicates: int = 0
    points: int = 0
    notes: list = field(default_factory=list)

    def per100k(self):
        return 1e5 * self.false / self.points if self.points else math.nan


def meets(f, t, slack):
    return f.onset <= t.end + slack and f.end >= t.start - slack


def match(truths, found, slack):
    """For each truth the report that tells it (that with the nearest onset, each report used once where it can be),
    the further reports inside a truth, and the reports that meet none."""
    told, used = {}, set()
    pairs = sorted(
        (abs(f.onset - t.onset), n, m)
        for n, t in enumerate(truths)
        for m, f in enumerate(found)
        if meets(f, t, slack)
    )
    for _, n, m in pairs:
        if n not in told and m not in used:
            told[n] = m
            used.add(m)
    # A report that spans several truths tells them all: they are one story to it.
    shared = 0
    for _, n, m in pairs:
        if n not in told:
            told[n] = m
            shared += 1
    met = {m for _, _, m in pairs}
    return told, [m for m in met if m not in used], [m for m in range(len(found)) if m not in met], shared


def tally(score, truths, found, slack, where, dated=True):
    """Adds what a detector found of the truths; returns the reports that meet none."""
    told, duplicates, others, _ = match(truths, found, slack)
    score.asked += len(truths)
    score.duplicates += len(duplicates)
    for n, t in enumerate(truths):
        if n not in told:
            near = min(found, key=lambda f: abs(f.onset - t.onset), default=None)
            near = f"; nearest {near.text or (near.onset, near.end)}" if near else "; nothing reported"
            score.notes.append(f"MISS {where} {t.name} ({t.kind}) onset {t.onset:g} size {t.size:.1f} sd length {t.length:g}{near}")
            continue
        f = found[told[n]]
        score.found += 1
        if dated:
            score.errors.append(abs(f.onset - t.onset))
            if abs(f.onset - t.onset) > 10:
                score.notes.append(f"DATED {where} {t.name} ({t.kind}) true {t.onset:g} off by {f.onset - t.onset:+g}: {f.text}")
        if t.shapes and f.shape:
            score.shape_asked += 1
            score.shape_right += f.shape in t.shapes
            if f.shape not in t.shapes:
                score.notes.append(f"SHAPE {where} {t.name} ({t.kind}) true {'/'.join(t.shapes)} told {f.shape}: {f.text}")
    return [found[m] for m in others]


def blame(score, found, where):
    """Counts false reports."""
    for f in found:
        if f.signal != "loss":
            score.false_norm += 1
            score.false_acts += f.acts
            score.notes.append(f"NORM {where} {f.text}")
            continue
        score.false += 1
        score.false_acts += f.acts
        score.notes.append(f"FALSE {where} {f.text or f'{f.onset:g}..{f.end:g}'}{' ACTS' if f.acts else ''}")


def peer_latency(score, truths, found, slack):
    told, _, _, _ = match(truths, found, slack)
    for n, m in told.items():
        score.asked_latency += 1
        score.latency.append(max(0.0, found[m].first - truths[n].onset))
        score.latency_of.append((truths[n].kind, score.latency[-1]))


def of(values, what=median, digits=3):
    return f"{what(values):.{digits}g}" if values else "–"


def nines(values):
    return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]


def pct(a, b):
    return f"{a}/{b} ({100 * a / b:.1f} %)" if b else "–"


HEAD = [
    "detector", "recall", "onset error, median", "90 %", "latency, median", "90 %", "false", "per 100k points", "ask for an action",
    "norm alone", "duplicates", "shape right",
]


def table(title, scores, out, note=""):
    out.append(f"\n### {title}\n")
    if note:
        out.append(note + "\n")
    out.append("| " + " | ".join(HEAD) + " |")
    out.append("|" + "---|" * len(HEAD))
    for name, s in scores.items():
        ours = name.startswith(OURS)
        lat = s.latency
        late = f" ({s.late} of {s.asked_latency} later)" if s.late else ""
        cells = [
            name, pct(s.found, s.asked), of(s.errors), of(s.errors, nines), of(lat) + late, of(lat, nines),
            str(s.false) if s.points else "–", f"{s.per100k():.2f}" if s.points else "–",
            str(s.false_acts) if ours else "", str(s.false_norm) if ours else "", str(s.duplicates),
            pct(s.shape_right, s.shape_asked) if ours else "",
        ]
        out.append("| " + " | ".join(cells) + " |")


def new_scores():
    return {name: Score() for name in [OURS, *PEERS]}


def causal_latency(product, score, truth, prefix, slack, attempt=None, last_step=None):
    """The smallest prefix of the growing log that announces the event. `prefix(k)` gives the rows up to k after the
    onset, `last_step(k)` the step of the last of them."""
    score.asked_latency += 1
    for k in PREFIXES:
        rows = prefix(k)
        if rows is None:
            break
        seen = incidents(product.lines(rows), attempt)
        now = Truth(truth.name, truth.onset, truth.start, last_step(k))
        if any(f.signal == "loss" and meets(f, now, slack) for f in seen):
            score.latency.append(max(0.0, last_step(k) - truth.onset))
            score.latency_of.append((truth.kind, score.latency[-1]))
            return
    score.late += 1


# ---------------------------------------------------------------- (a) labelled training runs

NEGATIVE = ("healthy", "fault-no-spike")


def lab_run(folder):
    truth = json.load(open(os.path.join(folder, "truth.json")))
    with gzip.open(os.path.join(folder, "log.jsonl.gz"), "rt") as f:
        lines = [line for line in f if line.strip()]
    own = [a for a in truth.get("attempts", []) if a["kind"] in ("original", "resume")]
    # The replays that followed are left out: this is what there is when the incident happens.
    lines = lines[: max(a["log_rows"][1] for a in own)] if own else lines
    rows = [json.loads(line) for line in lines]
    return truth, own, lines, rows


def kept(rows):
    """The series along the rows that a restart kept."""
    out = []
    for r in rows:
        while out and out[-1]["step"] >= r["step"]:
            out.pop()
        out.append(r)
    def column(name):
        values = [r.get(name) for r in out]
        return np.array([math.nan if v is None else float(v) for v in values])
    norm = column("grad_norm")
    return Series(np.array([r["step"] for r in out], float), column("loss"), norm if np.isfinite(norm).any() else None)


def lab_truth(t):
    s = t["spike"]
    # Chronic: the loss left its level well before any spike test fired.
    every = t["config"].get("log_every") or 1
    chronic = s["onset_step"] - s["rise_step"] > max(5, 2 * every)
    first = min(t.get("first_faulty_step") or s["onset_step"], s["onset_step"])
    try:
        size = (float(s["peak_loss"]) - s["baseline_loss"]) / s["noise_sigma"]
    except (TypeError, ValueError):
        size = math.nan
    return Truth(t["name"], s["onset_step"], first, s["peak_step"], "chronic" if chronic else "acute", (s["shape"],), size,
                 s["peak_step"] - s["rise_step"])


def part_a(args, product, out, raw):
    kinds = {"acute": new_scores(), "chronic": new_scores()}
    quiet = {"lab runs without an event": new_scores(), "lab runs, healthy, with a visible event": new_scores(),
             "lab runs, fault without a spike": new_scores(), "rows before the fault": new_scores()}
    by_rise = []
    work = []
    for name in sorted(os.listdir(args.lab)):
        folder = os.path.join(args.lab, name)
        if os.path.exists(os.path.join(folder, "truth.json")):
            work.append((name, *lab_run(folder)))
    docs = product.map(lambda w: product.lines(w[3]), work)
    for (name, truth, own, lines, rows), doc in zip(work, docs):
        label = truth["label"].replace("_", "-")
        also = truth.get("also_acceptable") or []
        last = max(0, len(own) - 1)
        series = kept(rows)
        found = {OURS: incidents(doc, last), **peers_on(series)}
        if label in NEGATIVE or not truth.get("spike"):
            if also:
                continue
            key = ("lab runs, fault without a spike" if label != "healthy" else
                   "lab runs, healthy, with a visible event" if truth.get("spike") else "lab runs without an event")
            for who, f in found.items():
                quiet[key][who].points += len(series)
                blame(quiet[key][who], f, name)
            continue
        t = lab_truth(truth)
        scores = kinds[t.kind]
        for who, f in found.items():
            before = [x for x in f if x.end < t.start - 10]
            points = int((series.step < t.start - 10).sum())
            quiet["rows before the fault"][who].points += points
            blame(quiet["rows before the fault"][who], before, name)
            loss = [x for x in f if x not in before and x.signal == "loss"]
            # Of several the highest tells it, as a person would point at the peak.
            hits = [x for x in loss if meets(x, t, 10)]
            if hits and who == OURS:
                best = max(hits, key=lambda x: x.size if x.size == x.size else -1.0)
                scores[who].duplicates += len(hits) - 1
                hits = [best]
                if t.kind == "chronic":
                    by_rise.append((name, best.onset - truth["spike"]["rise_step"], best.onset - t.onset))
            tally(scores[who], [t], hits if hits else loss, 10, name)
            if who != OURS:
                peer_latency(scores[who], [t], hits, 10)
        start = own[-1]["log_rows"][0] if own else 0
        at = next(i for i in range(start, len(rows)) if rows[i]["step"] >= t.onset)
        if any(meets(x, t, 10) for x in found[OURS] if x.signal == "loss"):
            causal_latency(product, scores[OURS], t, lambda k: lines[: at + k + 1] if at + k < len(lines) else None, 10, last,
                           lambda k: rows[at + k]["step"])
    table("(a) lab: acute incidents", kinds["acute"], out)
    table("(a) lab: chronic incidents", kinds["chronic"], out,
          "Onset error and latency count from the step at which a spike test fires; whyspike's onsets relative to the step at which "
          f"the loss leaves its level: median {of([r for _, r, _ in by_rise])} steps.")
    for key, scores in quiet.items():
        table(f"(a) {key}", scores, out)
    raw["a"] = {**kinds, **quiet}


# ---------------------------------------------------------------- (b) labelled Mixtral spikes

MIXTRAL = "megatron-golden-json__mixtral-8x7b-release-lts-a100.json"
# First and last step, largest excess in nats over the same run on other hardware.
MIXTRAL_SPIKES = [
    (1370, 1375, 0.129), (1490, 1535, 0.321), (2170, 2190, 0.263), (2280, 2280, 0.115), (2355, 2355, 0.112), (2425, 2425, 0.644),
    (2935, 2935, 0.168), (3005, 3025, 0.151), (3455, 3470, 0.178), (3735, 3735, 0.309), (4050, 4065, 2.703), (4245, 4250, 0.122),
    (4575, 4575, 0.282), (5300, 5305, 0.349), (5875, 5875, 0.237),
]
MIXTRAL_LABELLED = (1000, 6400)  # steps in which spikes of at least 0.1 nats are labelled


def golden(path):
    doc = json.load(open(path))["lm loss"]
    values = doc["values"]
    if isinstance(values, list):
        items = [(doc["start_step"] + n * doc["step_interval"], v) for n, v in enumerate(values)]
    else:
        items = [(int(k), v) for k, v in values.items()]
    return Series(np.array([s for s, _ in items], float), np.array([float(v) for _, v in items]))


# Events of other corpus files that must be found: file, onset, right shapes.
NAMED = [
    ("modded-nanogpt-txt__modernarch.txt", 947, ("transient",)),
    ("modded-nanogpt-txt__modernarch.txt", 1760, ("transient",)),
    ("modded-nanogpt-txt__unet-double-lr.txt", 947, ("transient",)),
    ("modded-nanogpt-txt__unet-double-lr.txt", 1760, ("transient",)),
    ("llmc-main-log__modded-nanogpt-adamw-2024-06.log", 7851, ("transient",)),
    ("nanogpt-console-wandb-output__char-model-a.log", 1685, ("transient",)),
    (MIXTRAL, 4050, ("transient",)),
]


def named(args, product, out):
    out.append("\n### (b) named events of the corpus\n\n| file | step | told | shape |\n|---|---|---|---|")
    docs = {}
    for name, onset, shapes in NAMED:
        if name not in docs:
            docs[name] = incidents(product.diagnose(os.path.join(args.corpus, name))[0])
        near = [f for f in docs[name] if f.onset - 5 <= onset <= f.end + 5]
        told = near[0].text if near else "no"
        right = "–" if not near else "right" if near[0].shape in shapes else "wrong"
        out.append(f"| {name} | {onset} | {told} | {right} |")


def part_b(args, product, out, raw):
    path = os.path.join(args.corpus, MIXTRAL)
    series = golden(path)
    finite = np.isfinite(series.loss)
    series = Series(series.step[finite], series.loss[finite])
    sd = 1.4826 * np.median(np.abs(np.diff(series.loss))) / math.sqrt(2)
    truths = [Truth(f"spike {a}", a, a, b, "acute", ("transient",), x / sd, b - a) for a, b, x in MIXTRAL_SPIKES]
    lines = rows_json(series)
    doc = product.diagnose(path)[0]
    found = {OURS: incidents(doc), **peers_on(series)}
    scores = new_scores()
    inside, outside = [], {}
    for who, f in found.items():
        f = [x for x in f if x.onset <= series.step[-1]]  # the run stops, the file goes on with NaN
        rest = tally(scores[who], truths, f, 20, "mixtral")
        unlabelled = [x for x in rest if MIXTRAL_LABELLED[0] <= x.onset <= MIXTRAL_LABELLED[1]]
        inside.append(f"{who} {len(unlabelled)}")
        if who == OURS:
            scores[who].notes += [f"UNLABELLED mixtral {x.text}" for x in unlabelled]
        scores[who].points = int(((series.step < MIXTRAL_LABELLED[0]) | (series.step > MIXTRAL_LABELLED[1])).sum())
        blame(scores[who], [x for x in rest if x not in unlabelled], "mixtral")
        if who != OURS:
            peer_latency(scores[who], truths, f, 20)
    told, *_ = match(truths, [f for f in found[OURS] if f.signal == "loss"], 20)

    def late(n):
        t = truths[n]
        at = int(np.searchsorted(series.step, t.onset))
        causal_latency(product, scores[OURS], t, lambda k: lines[: at + k + 1] if at + k < len(lines) else None, 20, None,
                       lambda k: float(series.step[at + k]))

    product.map(late, sorted(told))
    _, duplicates, _, shared = match(truths, found[OURS], 20)
    table("(b) 15 labelled Mixtral spikes", scores, out,
          f"Every 5 steps; sd of a row {sd:.4f} nats. False: outside steps {MIXTRAL_LABELLED[0]} to {MIXTRAL_LABELLED[1]}, where every "
          f"spike of 0.1 nats is labelled; unlabelled (smaller ones, real or not) inside: {', '.join(inside)}. whyspike tells {shared} "
          "spikes as a part of a neighbour's incident.")
    named(args, product, out)
    raw["b"] = {"mixtral": scores}


# ---------------------------------------------------------------- (c) quiet logs

NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
# How the loss of a console log is read for the other rules; whyspike reads the file itself.
CONSOLE = [
    re.compile(r"iteration\s+(\d+)/.*?lm_?\s?loss:\s*" + NUMBER),
    re.compile(r"step\s+(\d+)/\d+ \| (?:train )?loss " + NUMBER),
    re.compile(r"step:(\d+)/\d+ train_loss:" + NUMBER),
    re.compile(r"^iter (\d+): loss " + NUMBER),
    re.compile(r"^s:(\d+) trl:" + NUMBER),
    re.compile(r"^step\s+(\d+)/\d+ \| train loss " + NUMBER),
    re.compile(r"\"key\": \"train_loss\", \"value\": (?P<loss>[\d.]+).*?\"samples_count\": (?P<step>\d+)"),
    re.compile(r"epoch .*?(\d+) / \d+ loss=" + NUMBER),
]


def gnmt(text):
    """Steps of GNMT's bar count within an epoch."""
    steps, losses, base, last = [], [], 0, -1
    for m in re.finditer(r"TRAIN \[(\d+)\]\[(\d+)/(\d+)\].*?Loss/tok ([\d.]+)", text):
        at = int(m[1]) * int(m[3]) + int(m[2])
        if at > last:
            steps.append(at)
            losses.append(float(m[4]))
            last = at
    return Series(np.array(steps, float), np.array(losses))


def read_series(path):
    """The loss of a log in one of the forms of the corpus; `None` where this file cannot read it."""
    with open(path, "rb") as f:
        data = f.read()
    if b"\0" in data[:4096]:
        return None
    text = data.decode("utf-8", "replace")
    if os.path.basename(path).startswith("megatron-golden"):
        return golden(path)
    try:
        doc = json.loads(text)
        log = doc.get("log_history", []) if isinstance(doc, dict) else []
        pairs = [(r["step"], r["loss"]) for r in log if "loss" in r]
        return Series(*map(lambda a: np.array(a, float), zip(*pairs))) if pairs else None
    except ValueError:
        pass
    pairs = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                r = json.loads(line)
            except ValueError:
                continue
            loss = r.get("loss", r.get("learning/loss"))
            step = r.get("step", r.get("current_steps"))
            if loss is not None and step is not None:
                pairs.append((step, loss))
    if not pairs and "TRAIN [" in text:
        return gnmt(text)
    for form in [] if pairs else CONSOLE:
        pairs = [(float(m["step"]), float(m["loss"])) if "loss" in form.groupindex else (float(m[1]), float(m[2]))
                 for m in map(form.search, text.splitlines()) if m]
        if len(pairs) > 4:
            break
    if len(pairs) < 4:
        return None
    step, loss = (np.array(a, float) for a in zip(*pairs))
    up = np.concatenate([[True], np.diff(step) > 0])
    return Series(step[up], loss[up])


# Stretches of eventful corpus files for which no event is written down (first and last step). Not the same as quiet:
# modded-nanogpt's rows 3092, 3194, 3473 are hard batches (the same order of data gave the same rows in a twin run).
QUIET_STRETCHES = [
    ("llmc-main-log__modded-nanogpt-adamw-2024-06.log", 1000, 7800),
    ("llmc-main-log__modded-nanogpt-adamw-2024-06.log", 8000, 9535),
    (MIXTRAL, 6600, 15465),
    ("modded-nanogpt-txt__modernarch.txt", 1900, 5100),
    ("modded-nanogpt-txt__unet-double-lr.txt", 1900, 3000),
    ("nanogpt-console-wandb-output__char-model-a.log", 200, 1150),
]


def stretch(corpus, name, first, last):
    s = read_series(os.path.join(corpus, name))
    inside = (s.step >= first) & (s.step <= last) & np.isfinite(s.loss)
    return Series(s.step[inside], s.loss[inside])


def part_c(args, product, out, raw):
    kinds = {"corpus files without a visible event": new_scores(), "unlabelled stretches of other corpus files": new_scores()}
    growing = Score()
    with open(os.path.join(args.corpus, "MANIFEST.tsv")) as f:
        quiet = [r["file"] for r in csv.DictReader(f, delimiter="\t") if r["visible_event"].strip() == "none"]
    unread = []
    inputs = []
    for name in quiet:
        path = os.path.join(args.corpus, name)
        doc = product.diagnose(path)[0]
        scores = kinds["corpus files without a visible event"]
        scores[OURS].points += doc["run"]["rows"]
        blame(scores[OURS], incidents(doc), name)
        series = read_series(path)
        if series is None or len(series) < 0.5 * doc["run"]["rows"]:
            unread.append(f"{name} ({doc['run']['rows']} rows)")
            continue
        inputs.append((name, series))
        for who, f in peers_on(series).items():
            scores[who].points += len(series)
            blame(scores[who], f, name)
    for name, first, last in QUIET_STRETCHES:
        series = stretch(args.corpus, name, first, last)
        inputs.append((f"{name}[{first}..{last}]", series))
        scores = kinds["unlabelled stretches of other corpus files"]
        found = {OURS: incidents(product.lines(rows_json(series))), **peers_on(series)}
        for who, f in found.items():
            scores[who].points += len(series)
            blame(scores[who], f, inputs[-1][0])
    # The growing log: what is announced at some time, and whether it is still there at the end.
    if args.lab:
        for name in sorted(os.listdir(args.lab)):
            folder = os.path.join(args.lab, name)
            if "-ok-" in name and os.path.exists(os.path.join(folder, "truth.json")):
                truth, own, _, rows = lab_run(folder)
                if not truth.get("spike") and len(own) == 1:
                    inputs.append((name, kept(rows)))

    def grow(item):
        name, series = item
        lines = rows_json(series)
        seen = []
        for n in range(30, len(lines) + 1, args.grow):
            for f in incidents(product.lines(lines[:n])):
                if f.signal == "loss" and all(abs(f.onset - g.onset) > MERGE_STEPS for g in seen):
                    f.text = f"after row {n}: {f.text}"
                    seen.append(f)
        return name, len(lines), seen

    for name, points, seen in product.map(grow, [i for i in inputs if len(i[1]) > 60]):
        growing.points += points
        blame(growing, seen, name)
    for key, scores in kinds.items():
        note = (f"The other rules did not run on: {', '.join(unread)}." if key.startswith("corpus") else
                "What is told here may be real (hard batches): an upper bound for false incidents.")
        table(f"(c) {key}", scores, out, note)
    table(f"(c) all of these and the lab's healthy runs, diagnosed again every {args.grow} rows as they grow", {OURS: growing}, out,
          "An incident counts if it is ever announced, whether or not the whole log still shows it.")
    raw["c"] = {**kinds, "growing": {OURS: growing}}


# ---------------------------------------------------------------- (d) injected shapes


def decay(high, over, rows):
    return [high * math.exp(-i / over) for i in range(rows)]


# Excess in nats per record from the onset; and the right shapes where how long it lasts does not decide.
SHAPES = {
    "BLOOM-like +2.9": ([0.02, 0.40, 0.04, 0.15, 2.90, 1.30, 1.01, 0.6] + [0.6 * math.exp(-(i + 1) / 6) for i in range(22)], "acute", None),
    "tr8 exp11-like +4.65": ([0.05, 4.65] + decay(4.6, 700, 200), "acute", ("recoverable", "divergent", "level-shift")),
    "Marin bad spike +0.06": ([0.06] * 5 + [0.015] * 200, "chronic", ("level-shift", "recoverable")),
    "Mixtral +0.3": ([0.30] + decay(0.15, 6, 20), "acute", None),
    "Mixtral +0.10": ([0.10, 0.04, 0.02], "acute", None),
    "slow divergence +0.002/step": ([0.002 * i for i in range(300)], "chronic", ("divergent",)),
}
TRANSIENT_STEPS = 60  # back within so many steps: transient; later: recoverable


def back_in_time(excess, sd, every):
    """The right shapes of an excess that comes back: back below max(2 sd, 0.02 nats, 5 % of the peak). Both where it
    is within a quarter of the limit."""
    quiet = max(2 * sd, 0.02, 0.05 * max(excess))
    steps = every * (1 + max((i for i, x in enumerate(excess) if x > quiet), default=0))
    limits = (("transient", steps < 1.25 * TRANSIENT_STEPS), ("recoverable", steps > 0.75 * TRANSIENT_STEPS))
    return tuple(name for name, right in limits if right)


AFTER = 300  # records that are logged from the onset on
BEFORE = 1500  # and at most before it


# Curves as quiet as those of large batches (the fixed sizes in nats are made for these), and noisier ones.
FAMILIES = ("corpus, sd of a row up to 0.05 nats", "corpus, noisier", "lab")


def baselines(args):
    """Quiet real curves: name, family, series, injections on each shape."""
    out = []
    if args.corpus:
        curves = [(name, stretch(args.corpus, name, first, last)) for name, first, last in QUIET_STRETCHES if last - first > 3000]
        curves += [(name, read_series(os.path.join(args.corpus, name))) for name in (
            "mlperf-stdout__gnmt-dgx1.txt", "llmc-console__a100-gpt2-124M-11672114.log",
            "gpt-neox-console__llemma-scaling-70M-512step.out")]
        for name, s in curves:
            family = FAMILIES[0] if row_sd(s.loss[len(s) // 2 :]) <= 0.05 else FAMILIES[1]
            out.append((name.split("__")[1][:16], family, s, args.injections))
    if args.lab:
        runs = []
        for name in sorted(os.listdir(args.lab)):
            folder = os.path.join(args.lab, name)
            if "-ok-" in name and os.path.exists(os.path.join(folder, "truth.json")):
                truth, own, _, rows = lab_run(folder)
                if not truth.get("spike") and len(own) == 1 and len(rows) >= 700:
                    runs.append((name, FAMILIES[2], kept(rows)))
        out += [(*r, max(1, args.injections // max(1, len(runs) // 2))) for r in runs]
    return out


def row_sd(y):
    return 1.4826 * float(np.median(np.abs(np.diff(y)))) / math.sqrt(2)


def part_d(args, product, out, raw):
    kept_raw = {}
    bases = baselines(args)
    out.append("\n### (d) baselines\n\n| curve | family | rows | every | sd of a row | injections a shape |\n|---|---|---|---|---|---|")
    for name, family, s, count in bases:
        out.append(f"| {name} | {family} | {len(s)} | {s.spacing():g} | {row_sd(s.loss[len(s) // 2:]):.4f} | {count} |")
    for family in FAMILIES:
        for shape, (excess, kind, shapes) in SHAPES.items():
            scores, each = new_scores(), []
            jobs = []
            for b, (name, fam, s, count) in enumerate(bases):
                if fam != family:
                    continue
                rng = np.random.default_rng([b, list(SHAPES).index(shape)])
                low, high = len(s) // 2, max(len(s) // 2 + 1, len(s) - min(len(excess), len(s) // 4) - 30)
                jobs += [(name, s, int(at), n) for n, at in enumerate(rng.integers(low, high, count))]
            if not jobs:
                continue

            def one(job):
                name, s, at, n = job
                first, last = max(0, at - BEFORE), min(len(s), at + AFTER)
                part = Series(s.step[first:last], s.loss[first:last].copy())
                rows = min(len(excess), last - at)
                part.loss[at - first : at - first + rows] += excess[:rows]
                sd = row_sd(s.loss[len(s) // 2 :])
                t = Truth(shape, part.step[at - first], part.step[at - first], part.step[at - first + rows - 1], kind,
                          (shapes or back_in_time(excess, sd, s.spacing())) if rows == len(excess) else (), max(excess) / sd, rows)
                lines = rows_json(part)
                slack = max(20, 2 * s.spacing())
                ours = [f for f in incidents(product.lines(lines)) if f.signal == "loss"]
                late = Score()
                if n % args.latency_every == 0 and any(meets(f, t, slack) for f in ours):
                    o = at - first
                    causal_latency(product, late, t, lambda k: lines[: o + k + 1] if o + k < len(lines) else None, slack, None,
                                   lambda k: float(part.step[o + k]))
                return name, part, t, slack, ours, late

            per = {}
            for name, part, t, slack, ours, late in product.map(one, jobs):
                found = {OURS: ours, **peers_on(part)}
                for who, f in found.items():
                    before = scores[who].found
                    tally(scores[who], [t], f, slack, f"{name}@{t.onset:g}")
                    hit = scores[who].found - before
                    cell = per.setdefault((name, who), [0, 0])
                    cell[0] += hit
                    cell[1] += 1
                    if who != OURS:
                        peer_latency(scores[who], [t], f, slack)
                scores[OURS].latency += late.latency
                scores[OURS].late += late.late
                scores[OURS].asked_latency += late.asked_latency
            table(f"(d) {family}: {shape} ({kind})", scores, out)
            names = sorted({n for n, _ in per})
            if family != FAMILIES[2]:
                sizes = {name: max(excess) / row_sd(s.loss[len(s) // 2 :]) for name, _, s, _ in bases}
                heads = (f"{n} ({sizes[n]:.1f} sd)" for n in names)
                out.append("\n| recall by curve (highest excess) | " + " | ".join(heads) + " |\n|" + "---|" * (len(names) + 1))
                for who in scores:
                    out.append(f"| {who} | " + " | ".join(f"{per[n, who][0]}/{per[n, who][1]}" for n in names) + " |")
            kept_raw[f"{family} {shape}"] = scores
    raw["d"] = kept_raw


# ---------------------------------------------------------------- (e) generated runs


@dataclass
class Regime:
    """Numbers of a generated run. sd is that of one row; drift is in sd."""

    name: str
    relative: float  # sd over level
    phi: float  # AR(1)
    df: float  # Student t
    cut: float  # noise beyond so many sd is drawn again; inf: not at all
    walk: float  # sd of the walk after 1000 steps; pulled back over 50 000 steps
    level: str


REGIMES = [
    Regime("normal noise", 0.01, 0.0, math.inf, math.inf, 0.05, "power"),
    Regime("power law", 0.01, 0.0, 6, 5.0, 0.10, "power"),
    Regime("cosine", 0.005, 0.15, 5, 5.0, 0.15, "cosine"),
    Regime("cycles", 0.02, 0.3, 4, 5.0, 0.20, "cycles"),
    Regime("power law, tails not cut", 0.01, 0.1, 4, math.inf, 0.10, "power"),
]


def student(rng, n, df, cut):
    """Student t scaled to variance 1 before the cut; normal where df is infinite."""
    if math.isinf(df):
        return rng.standard_normal(n)
    w = rng.standard_t(df, n) / math.sqrt(df / (df - 2))
    while (bad := np.abs(w) > cut).any():
        w[bad] = rng.standard_t(df, int(bad.sum())) / math.sqrt(df / (df - 2))
    return w


def recurrence(w, phi, gain):
    """x[t] = phi x[t−1] + gain w[t]."""
    x, out = 0.0, []
    for v in w.tolist():
        x = phi * x + gain * v
        out.append(x)
    return np.array(out)


def generate(seed, regime, n):
    """A run of n steps: series, batch size, events, and the benign changes as (name, first step, last step)."""
    rng = np.random.default_rng([seed, REGIMES.index(regime)])
    t = np.arange(n, dtype=float)
    base = {
        "power": lambda: 2.0 + 8.9 * (1 + t / 60) ** -0.45,
        "cosine": lambda: 2.3 + 0.35 * (1 + np.cos(np.pi * t / n)) + 8.0 * (1 + t / 80) ** -0.7,
        "cycles": lambda: 1.9 + 9.0 * (1 + t / 50) ** -0.5 + regime.relative * 2.2 * np.sin(2 * np.pi * t / 250_000),
    }[regime.level]()
    sd = regime.relative * float(np.median(base))
    noise = student(rng, n, regime.df, regime.cut)
    if regime.phi:
        noise = recurrence(noise, regime.phi, math.sqrt(1 - regime.phi**2))
    walk = recurrence(rng.standard_normal(n), 1 - 1 / 50_000, regime.walk / math.sqrt(1000))
    spread = np.ones(n)
    batch = np.full(n, 1024.0)
    excess = np.zeros(n)  # in sd
    shift = np.zeros(n)  # benign, in sd
    lift = np.zeros(n)  # of log10 of the gradient norm
    events, benign = [], []
    kinds = (["acute"] * int(rng.integers(20, 61)) + ["ramp"] * int(rng.integers(5, 11)) + ["plateau"] * int(rng.integers(5, 11))
             + ["down"] * 4 + ["small up"] * 4 + ["mixture up"] * 3 + ["batch up", "batch down"])
    rng.shuffle(kinds)
    slot = (n - 10_000) // len(kinds)
    for place, kind in enumerate(kinds):
        room = max(1, slot - 4500)
        at = 8000 + place * slot + int(rng.integers(0, room))
        if kind == "acute":
            rows = int(rng.integers(1, 61))
            low = 5.0 if rows >= 8 else 10.0
            high = math.exp(rng.uniform(math.log(low), math.log(4.0 / sd)))
            rise = int(rng.integers(1, 4)) if rng.random() < 0.3 else 0
            form = np.concatenate([high * np.arange(1, rise + 1) / (rise + 1), high * np.exp(-np.arange(rows) / max(0.5, rows / 3))])
            excess[at : at + len(form)] += form
            early = int(rng.integers(0, 4))
            lift[at - early : at + len(form)] += np.minimum(2.5, np.log10(1 + 0.5 * np.concatenate([np.full(early, 3.0), form])))
            shape = ("transient",) if len(form) <= 60 else ("transient", "recoverable")
            events.append(Truth("acute", at + 1, at + 1, at + len(form), "acute", shape, high, len(form)))
        elif kind == "ramp":
            rows, slope = int(rng.integers(150, 401)), rng.uniform(0.05, 0.12)
            form = slope * np.arange(1, rows + 1)
            form = np.concatenate([form, form[-1] * np.exp(-np.arange(1, 201) / 40)])
            excess[at : at + len(form)] += form
            lift[at : at + len(form)] += np.log10(1 + 0.15 * form)
            events.append(Truth(f"ramp {slope:.3f} sd/step", at + 1, at + 1, at + len(form), "chronic", (), slope * rows, rows))
        elif kind == "plateau":
            rows, high = int(rng.integers(200, 3001)), rng.uniform(2, 5)
            excess[at : at + rows] += high
            lift[at : at + rows] += rng.uniform(0.15, 0.3)
            events.append(Truth("plateau", at + 1, at + 1, at + rows, "chronic", (), high, rows))
        elif kind.startswith("batch"):
            spread[at:] *= math.sqrt(0.5) if kind == "batch up" else math.sqrt(2.0)
            batch[at:] *= 2.0 if kind == "batch up" else 0.5
            benign.append((kind, at + 1, at + 1000))
        else:
            size = {"down": -rng.uniform(0.5, 3), "small up": rng.uniform(0.3, 1), "mixture up": rng.uniform(1.5, 3)}[kind]
            shift[at:] += size
            benign.append((f"{kind} {size:+.2f} sd", at + 1, at + 1000))
    clean = base + sd * (walk + shift)
    loss = clean + sd * (spread * noise + excess)
    own = student(rng, n, 6, 6.0)
    norm = 10 ** (-0.6 + 0.3 * (1 + t / 500) ** -0.5 + 0.045 * own + 0.012 * noise + lift)
    series = Series(t + 1, loss, norm)
    return series, batch, events, benign, dict(sd=sd, clean=clean, spread=spread, noise=noise, excess=excess)


def f1(found, asked, false):
    precision = found / (found + false) if found + false else 0.0
    recall = found / asked if asked else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def oracle(series, events, hidden):
    """The best F1 of a detector that knows baseline and sd exactly and picks its two thresholds afterwards: single
    rows above one, means of 32 rows above the other. What is missing to 1 is in the input, not in a detector."""
    z = (series.loss - hidden["clean"]) / (hidden["sd"] * hidden["spread"])
    sums = np.concatenate([[0.0], np.cumsum(z)])
    mean = np.zeros(len(z))
    mean[31:] = (sums[32:] - sums[:-32]) / math.sqrt(32)
    best = (0.0, 0, 0)
    for row in (5, 5.5, 6, 6.5, 7, 8, 9, 10, 12, 15, 20):
        for many in (5, 6, 7, 8, 10, 12):
            hits = np.flatnonzero((z > row) | (mean > many))
            found = merged(series.step, hits)
            told, _, others, _ = match(events, found, 20)
            score = f1(len(told), len(events), len(others))[2]
            best = max(best, (score, row, many))
    return best


def pelt(series, sd):
    """Segments of the detrended loss by PELT (L2 cost, penalty 3 log(n) sd², at least 5 rows) whose mean is 1.5 sd
    above the median of the segments around; neighbours are one event."""
    import ruptures

    n = len(series)
    edges = np.arange(0, n + 1, 20_000)
    mids = (edges[:-1] + edges[1:]) / 2
    trend = np.interp(np.arange(n), mids, [np.median(series.loss[a:b]) for a, b in zip(edges[:-1], edges[1:])])
    y = ((series.loss - trend) / sd).reshape(-1, 1)
    begun = time.perf_counter()
    ends = ruptures.KernelCPD(kernel="linear", min_size=5).fit(y).predict(pen=3 * math.log(n))
    took = time.perf_counter() - begun
    begins = np.concatenate([[0], ends[:-1]]).astype(int)
    sums = np.concatenate([[0.0], np.cumsum(y[:, 0])])
    ends = np.array(ends)
    means = (sums[ends] - sums[begins]) / (ends - begins)
    level = np.zeros(n)
    for a, b, m in zip(begins, ends, means):
        level[a:b] = m
    # The level around: median over the rows of 10 000 steps on either side.
    around = np.interp(np.arange(n), np.arange(0, n, 500),
                       [np.median(level[max(0, i - 10_000) : i + 10_000 : 50]) for i in range(0, n, 500)])
    high = np.flatnonzero(level - around > 1.5)
    return merged(series.step, high), took


def part_e(args, product, out, raw):
    rows_out, kept_raw = [], {}
    for regime in REGIMES:
        pooled = new_scores()
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            series, batch, events, benign, hidden = generate(seed, regime, args.steps)
            folder = os.path.join(args.out, "runs")
            os.makedirs(folder, exist_ok=True)
            stem = os.path.join(folder, f"{regime.name.replace(' ', '-').replace(',', '')}-{seed}")
            lines = rows_json(series, [("global_batch_size", batch)])
            with open(stem + ".jsonl", "w") as f:
                f.writelines(lines)
            product.run("ingest", stem + ".jsonl", "-o", stem + ".parquet")
            if not args.keep:
                os.remove(stem + ".jsonl")
            times, cpu = [], []
            for _ in range(3):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                doc, took = product.diagnose(stem + ".parquet")
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(took)
                cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            ours = incidents(doc)
            found = {OURS: [f for f in ours if f.signal == "loss"], **peers_on(series)}
            extra = {}
            if args.pelt and seed == args.first_seed and regime is REGIMES[1]:
                found["PELT (two-sided)"], extra["PELT (two-sided)"] = pelt(series, hidden["sd"])
                pooled["PELT (two-sided)"] = Score()
            where = f"{regime.name}/{seed}"
            quiet = int(len(series) - sum(e.end - e.start + 1 for e in events))
            best = oracle(series, events, hidden)
            z = hidden["noise"]
            facts = (f"{sum(e.kind == 'acute' for e in events)} acute, {sum(e.kind == 'chronic' for e in events)} chronic; noise rows above "
                     f"6 sd {int((z > 6).sum())}, above 8 sd {int((z > 8).sum())}; oracle F1 {best[0]:.3f} (row > {best[1]}, mean of 32 > {best[2]})")
            out.append(f"\n#### (e) {where}\n\n{facts}. whyspike on Parquet: {min(times):.2f} s, "
                       f"{min(cpu):.2f} s of processor time, best of three.\n")
            out.append("| detector | acute | chronic | false | of them at a benign change | duplicates | precision | recall | F1 | seconds |")
            out.append("|" + "---|" * 10)
            for who, f in found.items():
                s = Score()
                others = tally(s, events, f, 20, where)
                blame(s, others, where)
                at_benign = []
                for x in others:
                    b = next((b for b in benign if x.onset <= b[2] and x.end >= b[1] - 20), None)
                    if b:
                        at_benign.append(b[0])
                        s.notes.append(f"BENIGN {where} {b[0]} at {b[1]}: {x.text or x.onset}")
                told, _, _, _ = match(events, f, 20)
                by = {k: (sum(events[n].kind == k for n in told), sum(e.kind == k for e in events)) for k in ("acute", "chronic")}
                p, r, both = f1(s.found, s.asked, s.false)
                seconds = f"{min(times):.2f}" if who == OURS else f"{extra[who]:.1f}" if who in extra else ""
                kinds = {}
                for b in at_benign:
                    kinds[b.split(" +")[0].split(" -")[0]] = kinds.get(b.split(" +")[0].split(" -")[0], 0) + 1
                told_kinds = ", ".join(f"{k} {v}" for k, v in kinds.items())
                out.append(f"| {who} | {by['acute'][0]}/{by['acute'][1]} | {by['chronic'][0]}/{by['chronic'][1]} | {s.false} | "
                           f"{len(at_benign)}{' (' + told_kinds + ')' if kinds else ''} | {s.duplicates} | {p:.3f} | {r:.3f} | {both:.3f} | {seconds} |")
                if who == OURS:
                    s.false_norm = sum(x.signal != "loss" for x in ours)
                    s.notes += [f"NORM {where} {x.text}" for x in ours if x.signal != "loss"][:10]
                    rows_out.append((where, both, min(times), min(cpu)))
                else:
                    peer_latency(s, events, f, 20)
                s.points = quiet
                pool(pooled[who], s)
            latency_e(args, product, pooled[OURS], series, batch, events, found[OURS])
            if not args.keep:
                os.remove(stem + ".parquet")
            print(f"  {where}: F1 {rows_out[-1][1]:.3f}, {rows_out[-1][2]:.2f} s", file=sys.stderr, flush=True)
        kept_raw[regime.name] = pooled
        tails = "normal" if math.isinf(regime.df) else f"t({regime.df:g})"
        table(f"(e) {regime.name}: sd {100 * regime.relative:g} % of the level, AR(1) {regime.phi}, {tails}"
              f"{'' if math.isinf(regime.cut) else f' cut at {regime.cut:g} sd'}, drift {regime.walk} sd per 1000 steps; {args.seeds} seeds",
              pooled, out)
        out.append("\n| latency in steps | acute: events, median, 90 % | chronic: events, median, 90 % |\n|---|---|---|")
        for who, s in pooled.items():
            kinds = [[v for k, v in s.latency_of if k == kind] for kind in ("acute", "chronic")]
            out.append(f"| {who} | " + " | ".join(f"{len(v)}, {of(v)}, {of(v, nines)}" for v in kinds) + " |")
    out.append("\n### (e) F1 in all\n\n| run | F1 | seconds | processor seconds |\n|---|---|---|---|")
    out.extend(f"| {w} | {v:.3f} | {t:.2f} | {c:.2f} |" for w, v, t, c in rows_out)
    raw["e"] = kept_raw


def pool(total, s):
    for key, value in vars(s).items():
        setattr(total, key, getattr(total, key) + value)


def latency_e(args, product, score, series, batch, events, found):
    """Causal latency on a few events, each in a log that begins 5000 rows before it."""
    told, *_ = match(events, found, 20)
    picked = [n for kind, most in (("acute", 8), ("chronic", 6)) for n in [n for n in sorted(told) if events[n].kind == kind][:most]]

    def one(n):
        t = events[n]
        at = int(t.onset) - 1
        first = max(0, at - 5000)
        part = Series(series.step[first : at + 201], series.loss[first : at + 201], series.norm[first : at + 201])
        lines = rows_json(part, [("global_batch_size", batch[first : at + 201])])
        o = at - first
        late = Score()
        causal_latency(product, late, t, lambda k: lines[: o + k + 1] if o + k < len(lines) else None, 20, None,
                       lambda k: float(part.step[o + k]))
        return late

    for late in product.map(one, picked):
        score.latency += late.latency
        score.latency_of += late.latency_of
        score.late += late.late
        score.asked_latency += late.asked_latency


# ---------------------------------------------------------------- the whole


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", required=True, help="the whyspike binary, a release build for the wall times")
    p.add_argument("--lab", help="folder of labelled runs (parts a, c, d)")
    p.add_argument("--corpus", help="folder of real logs with a MANIFEST.tsv (parts b, c, d)")
    p.add_argument("--parts", default="abcde", help="which parts to run (default: all)")
    p.add_argument("--out", default="detection-out", help="folder for tables.md, notes.txt and the generated runs")
    p.add_argument("--injections", type=int, default=60, help="injections a shape and corpus curve (default: 60)")
    p.add_argument("--latency-every", type=int, default=6, help="causal latency of every so many injections (default: 6)")
    p.add_argument("--grow", type=int, default=25, help="rows between diagnoses of a growing quiet log (default: 25)")
    p.add_argument("--seeds", type=int, default=2, help="generated runs a regime (default: 2)")
    p.add_argument("--first-seed", type=int, default=1, help="the first of them: seeds that nobody has looked at are the test (default: 1)")
    p.add_argument("--steps", type=int, default=1_000_000, help="steps of a generated run (default: 1 000 000)")
    p.add_argument("--pelt", action="store_true", help="run PELT on the first generated run (needs ruptures)")
    p.add_argument("--keep", action="store_true", help="keep the generated runs")
    p.add_argument("--threads", type=int, default=2, help="processes at a time (default: 2); wall times are taken alone")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    product = Product(args.bin, args.threads)
    out, raw = [], {}
    parts = [("a", part_a, args.lab), ("b", part_b, args.corpus), ("c", part_c, args.corpus), ("d", part_d, args.lab or args.corpus), ("e", part_e, True)]
    for letter, part, there in parts:
        if letter not in args.parts:
            continue
        if not there:
            print(f"part {letter} left out: its folder is not given", file=sys.stderr)
            continue
        begun, at = time.perf_counter(), len(out)
        part(args, product, out, raw)
        print("\n".join(out[at:]), flush=True)
        print(f"part {letter}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    with open(os.path.join(args.out, "tables.md"), "w") as f:
        f.write("\n".join(out) + "\n")
    with open(os.path.join(args.out, "notes.txt"), "w") as f:
        for letter, kinds in raw.items():
            for kind, scores in kinds.items():
                for who, s in scores.items():
                    f.writelines(f"({letter}) {kind} | {who} | {note}\n" for note in s.notes)


if __name__ == "__main__":
    main()
