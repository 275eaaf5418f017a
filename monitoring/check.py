#!/usr/bin/env python3
"""Has a real Prometheus scrape a real watch: the metrics arrive, the alerts fire when they should, the dashboard's queries hold.

usage: check.py WHYSPIKE    (the binary; `prometheus` and `promtool` are on the PATH)
"""
import json, random, re, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 90


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    # Whatever proxy the machine has is not for this one.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        return answer.read().decode()


class Server:
    """Prometheus with the project's configuration, scraping every second."""

    def __init__(self, folder, watch_port):
        self.port = free_port()
        config = (HERE / "prometheus.yml").read_text()
        config = re.sub(r"_interval: \d+s", "_interval: 1s", config).replace("127.0.0.1:9464", f"127.0.0.1:{watch_port}")
        (folder / "prometheus.yml").write_text(config)
        (folder / "alerts.yml").write_text((HERE / "alerts.yml").read_text())
        self.log = open(folder / "prometheus.log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=self.log)

    def api(self, path, **query):
        query = urllib.parse.urlencode(query)
        return json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"))["data"]

    def query(self, expression):
        return self.api("query", query=expression)["result"]

    def value(self, expression):
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def firing(self):
        alerts = self.api("alerts")["alerts"]
        return sorted(a["labels"]["alertname"] for a in alerts if a["state"] == "firing")


def until(what, test):
    start = time.time()
    last = None
    while time.time() - start < PATIENCE:
        try:
            last = test()
            if last:
                print(f"ok: {what}")
                return last
        except OSError as error:
            last = error
        time.sleep(0.3)
    sys.exit(f"not so after {PATIENCE} s: {what} (last: {last})")


def rows(steps, level, seed):
    noise = random.Random(seed)
    return "".join(
        json.dumps({"step": s, "loss": round(level + noise.gauss(0, 0.01), 5), "grad_norm": round(0.5 + 0.02 * noise.random(), 4)}) + "\n"
        for s in steps)


def main(whyspike):
    subprocess.run(["promtool", "check", "config", HERE / "prometheus.yml"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, port = folder / "train.jsonl", free_port()
        log.write_text(rows(range(1, 600), 2.0, 1))
        watch = subprocess.Popen(
            [whyspike, "watch", str(log), "--state", str(folder / "state"), "--every", "0.3", "--hang-after", "6s",
             "--metrics", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL)
        server = Server(folder, port)
        try:
            drive(server, log, port)
        finally:
            for process in (watch, server.process):
                process.kill()
                process.wait()


def append(log, text):
    with open(log, "a") as file:
        file.write(text)


def ask(server):
    """Every query of the dashboard, as for all runs."""
    dashboard = json.loads((HERE / "dashboard.json").read_text())
    asked = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    asked += [a["expr"] for a in dashboard["annotations"]["list"]]
    for expression in asked:
        expression = expression.replace("$instance", ".*")
        found = server.query(expression)
        assert found or "increase" in expression, expression
    print(f"ok: {len(asked)} queries of the dashboard are answered")


def drive(server, log, port):
    metrics = until("the watch serves metrics", lambda: get(f"http://127.0.0.1:{port}/metrics"))
    subprocess.run(["promtool", "check", "metrics"], input=metrics.encode(), check=True)
    until("Prometheus has the last step", lambda: server.value("whyspike_last_step") == 599)
    assert server.firing() == [], server.firing()
    # A jump that stays: first it is waited for, then it is told to go back.
    append(log, rows(range(600, 605), 4.0, 2))
    until("waiting is an alert", lambda: "TrainingIncidentWaits" in server.firing())
    append(log, rows(range(605, 700), 4.0, 3))
    until("going back is an alert", lambda: "TrainingIncident" in server.firing())
    until("waiting is none any more", lambda: "TrainingIncidentWaits" not in server.firing())
    assert server.value("whyspike_robust_z") > 6
    ask(server)
    until("a hang is an alert", lambda: "TrainingHangs" in server.firing())
    append(log, json.dumps({"step": 700, "loss": float("nan"), "grad_norm": 1.0}) + "\n")
    until("a loss that is no number is an alert", lambda: "TrainingLossNotFinite" in server.firing())
    until("the hang is over", lambda: "TrainingHangs" not in server.firing())


if __name__ == "__main__":
    main(*sys.argv[1:])
