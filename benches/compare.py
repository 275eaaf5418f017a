#!/usr/bin/env python3
"""Measures `whyspike ingest` beside the public tools, on the same files and in one run.

    compare.py [--bin target/release/whyspike] [--inputs target/tmp/inputs] [--rounds 5] [--only NAME]...

Every reading is a process of its own that ends with Parquet written. They take turns, and medians are told. What each
read is checked against what whyspike read: the rows, and the sum of the loss. See benches/README.md.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

PEERS = Path(__file__).with_name("peers.py")
SLOW = 20.0  # seconds; what takes longer runs once
SAME = 1e-9  # relative difference of two sums of the same numbers
SPARE = 64 << 20  # bytes that whyspike may take beside the decoded columns
OURS = "whyspike"


@dataclass(frozen=True)
class Mark:
    """What whyspike has to reach: a part of the time, and perhaps of the memory, of the best of some peers."""

    time: float
    best_of: tuple
    memory: float = math.inf
    line_log: bool = False


POLARS = ("polars", "polars, streaming")
MARKS = {
    "megatron.log": Mark(0.4, ("polars str.split", "polars, bars as CSV"), line_log=True),
    "torchtitan.log": Mark(0.3, ("polars str.extract",), line_log=True),
    "metrics.jsonl": Mark(0.7, ("DuckDB", *POLARS), memory=1 / 3, line_log=True),
    "metrics.csv": Mark(0.8, ("DuckDB", "pyarrow", *POLARS), memory=1 / 3, line_log=True),
    "tensorboard": Mark(0.1, ("TensorBoard's data server",)),
    "run-bench000.wandb": Mark(0.1, ("tuned protobuf walk",)),
    "trainer_state.json": Mark(0.3, ("polars", "DuckDB")),
    "runs": Mark(0.7, ("DuckDB", "polars")),
}


@dataclass
class Reading:
    """The times of one reader of one input, its largest peak of memory, and what it read."""

    seconds: list
    peak: int = 0
    read: dict = None

    @property
    def median(self):
        return median(self.seconds)


def run(command, stdin=None):
    """Wall time and peak memory of a process and those that it waited for, and what it printed."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, text=True)
    printed = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {process.returncode}")
    return seconds, usage.ru_maxrss * 1024, printed


def source(inputs, name):
    """The path that is read: an event file is alone in its folder."""
    path = inputs / name
    return next(path.iterdir()) if name == "tensorboard" else path


def warm(path):
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with open(file, "rb") as opened:
            while opened.read(1 << 20):
                pass


def checked(files):
    found = subprocess.run([sys.executable, PEERS, "check", *files], check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


class Comparison:
    """One input, read by all."""

    def __init__(self, name, peers, options, folder):
        self.name = name
        self.path = source(options.inputs, name)
        self.options = options
        self.out = folder / "out"
        self.readings = {reader: Reading([]) for reader in [*peers, OURS]}
        self.columns = 0

    def measure(self):
        warm(self.path)
        for turn in range(self.options.rounds):
            for reader, reading in self.readings.items():
                if turn == 0 or reading.seconds[0] <= SLOW:
                    self.turn(reader, reading)
        self.agree()

    def turn(self, reader, reading):
        subprocess.run(["rm", "-rf", self.out], check=True)
        self.out.mkdir()
        seconds, peak = self.ours() if reader == OURS else self.peer(reader)
        reading.seconds.append(seconds)
        reading.peak = max(reading.peak, peak)
        if reading.read is None:
            reading.read = checked(sorted(self.out.glob("*.parquet")))
        print(f"  {self.name}: {reader}: {seconds:.2f} s", file=sys.stderr)

    def peer(self, reader):
        command = [sys.executable, PEERS, self.name, reader, self.path, self.out / "peer.parquet"]
        seconds, peak, _ = run(command)
        return seconds, peak

    def ours(self):
        if self.path.is_dir():
            return self.many()
        seconds, peak, printed = run([self.options.bin, "ingest", self.path, "-o", self.out / "run.parquet"])
        self.columns = columns(printed)
        return seconds, peak

    def many(self):
        """A store holds one run: as many stores as runs."""
        seconds, peak, printed = run([self.options.bin, "ingest", "--each", *sorted(self.path.iterdir()), "-o", self.out])
        self.columns = columns(printed)
        return seconds, peak

    def agree(self):
        ours = self.readings[OURS].read
        for reader, reading in self.readings.items():
            rows, loss = reading.read["rows"], reading.read["loss"]
            print(f"  {self.name}: {reader}: {rows} rows, sum of the loss {loss!r}", file=sys.stderr)
            if rows != ours["rows"] or not math.isclose(loss, ours["loss"], rel_tol=SAME):
                sys.exit(f"{self.name}: {reader} read {reading.read}, whyspike {ours}")

    @property
    def decoded(self):
        return self.readings[OURS].read["rows"] * self.columns * 8

    def best(self):
        return min(MARKS[self.name].best_of, key=lambda reader: self.readings[reader].median)

    def lines(self):
        """A row of the table for each peer; the mark stands at the one that it is measured against."""
        ours, best = self.readings[OURS], self.best()
        for reader, reading in self.readings.items():
            if reader == OURS:
                continue
            cells = [
                self.name,
                reader,
                self.told(reading),
                self.told(ours),
                f"{ours.median / reading.median:.3f}",
                f"≤ {MARKS[self.name].time}" if reader == best else "",
                megabytes(reading.peak),
                megabytes(ours.peak),
                megabytes(self.decoded),
            ]
            yield f"| {' | '.join(cells)} |"

    def told(self, reading):
        once = " (once)" if len(reading.seconds) < self.options.rounds else ""
        return f"{reading.median:.2f}{once}"

    def missed(self):
        """The marks that are not reached."""
        mark, ours, best = MARKS[self.name], self.readings[OURS], self.readings[self.best()]
        ratio, part, most = ours.median / best.median, ours.peak / best.peak, self.decoded + SPARE
        if ratio > mark.time:
            yield f"{self.name}: {ratio:.2f} of the time of {self.best()}, to be {mark.time}"
        if part > mark.memory:
            yield f"{self.name}: {part:.2f} of the memory of {self.best()}, to be {mark.memory:.2f}"
        if mark.line_log and ours.peak > most:
            yield f"{self.name}: {megabytes(ours.peak)} MB at the peak, to be {megabytes(most)}"


def columns(printed):
    """Of `run.parquet: 1000 rows, 12 columns, …`."""
    return int(printed.split(" columns", 1)[0].rsplit(" ", 1)[1])


def megabytes(size):
    return f"{size / 1e6:.0f}"


HEAD = [
    "| input | peer | peer, s | whyspike, s | ratio | mark | peer's peak, MB | whyspike's peak, MB | decoded, MB |",
    "|---|---|--:|--:|--:|--:|--:|--:|--:|",
]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=Path("target/release/whyspike"))
    parser.add_argument("--inputs", type=Path, default=Path("target/tmp/inputs"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(MARKS), metavar="NAME", help=", ".join(MARKS))
    return parser.parse_args()


def main():
    asked = options()
    listed = subprocess.run([sys.executable, PEERS, "list"], check=True, capture_output=True, text=True)
    peers = json.loads(listed.stdout)
    comparisons = []
    # Beside the inputs: a folder of temporary files may lie in memory.
    with tempfile.TemporaryDirectory(dir=asked.inputs.parent) as folder:
        for name in asked.only or MARKS:
            comparison = Comparison(name, peers[name], asked, Path(folder))
            comparison.measure()
            comparisons.append(comparison)
    print("\n".join([*HEAD, *(line for c in comparisons for line in c.lines())]))
    missed = [what for c in comparisons for what in c.missed()]
    print("\nEvery mark is reached." if not missed else "\nNot reached:\n\n" + "\n".join(f"- {m}" for m in missed))


if __name__ == "__main__":
    main()
