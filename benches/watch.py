#!/usr/bin/env python3
"""How a watch keeps up with a log that grows fast: processor time, memory along the way, and whether each spike is told.

usage: watch.py WHYSPIKE [LINES_PER_SECOND] [SECONDS]    (defaults: 50000 and 30)
"""
import json, os, random, subprocess, sys, tempfile, time
from pathlib import Path

LINE = (" [2026-11-30 10:00:00] iteration {step:8d}/ 9999999 | consumed samples: {samples:12d} | elapsed time per iteration (ms): "
        "812.3 | learning rate: 3.000E-04 | global batch size:   512 | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: "
        "{norm:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |\n")
# Three rows high once in so many steps.
SPIKES = 200_000


def line(step, noise):
    up = 1.0 if step > SPIKES / 2 and step % SPIKES < 3 else 0.0
    return LINE.format(step=step, samples=512 * step, loss=2 + 0.01 * noise.gauss(0, 1) + up, norm=0.3 + 0.01 * noise.random())


def status(pid, key):
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(l for l in text.splitlines() if l.startswith(key)).split()[1])


def main(whyspike, rate="50000", seconds="30"):
    rate, seconds = int(rate), int(seconds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, told = folder / "train.log", folder / "told"
        log.touch()
        with open(told, "w") as out:
            watch = subprocess.Popen([whyspike, "watch", str(log), "--state", str(folder / "state"), "--every", "1"],
                                     stdout=out, stderr=subprocess.DEVNULL)
        noise, step, memory, start = random.Random(1), 0, [], time.time()
        with open(log, "a") as file:
            for tenth in range(10 * seconds):
                file.write("".join(line(step + n + 1, noise) for n in range(rate // 10)))
                file.flush()
                step += rate // 10
                if tenth % 50 == 49:
                    memory.append(status(watch.pid, "VmRSS") // 1024)
                time.sleep(max(0.0, start + (tenth + 1) / 10 - time.time()))
        wrote = time.time() - start
        time.sleep(3)
        fields = Path(f"/proc/{watch.pid}/stat").read_text().split()
        ticks = os.sysconf("SC_CLK_TCK")
        used = (int(fields[13]) + int(fields[14])) / ticks
        watch.kill()
        watch.wait()
        seen = json.loads((folder / "state" / "state.json").read_text())["seen_to"]["step"] if (folder / "state" / "state.json").exists() else 0
        lines = [l for l in told.read_text().splitlines() if "onset" in l and "  now " not in l]
        print(f"wrote {step} lines in {wrote:.1f} s ({step / wrote:.0f} a second, {log.stat().st_size / 1e6:.0f} MB)")
        print(f"told {len(lines)} of {step // SPIKES} spikes; last step seen when the state was written last: {seen}")
        print(f"processor time {used:.1f} s ({100 * used / wrote:.0f} % of a core); memory every 5 s, MB: {memory}")


if __name__ == "__main__":
    main(*sys.argv[1:])
