#!/usr/bin/env python3
"""One reading of one log by a public tool, as a process of its own: peers.py PEER INPUT OUTPUT.parquet

    peers.py list               the peers of every input
    peers.py check FILE...      rows and sum of the loss of Parquet files, as JSON

Every peer imports only what it needs, reads the whole input and writes its table as Parquet. Each is written the way
its users would who want it fast: `benches/README.md` says what each does.
"""
import json
import sys
from pathlib import Path

RUN_COLUMN = "filename"  # which of many runs a row is of


# Megatron-LM's console

MEGATRON_FIELDS = 12  # of a line, each behind a bar


def megatron_polars_split(log, out):
    import polars as pl

    lines = lines_of(pl, log).filter(pl.col("line").str.starts_with(" ["))
    parts = pl.col("line").str.splitn("|", MEGATRON_FIELDS + 2).struct.unnest()
    megatron_fields(pl, lines.select(parts), out)


def megatron_polars_csv(log, out):
    """Bars as the separators of a CSV: not every log has them only there."""
    import polars as pl

    schema = {f"field_{i}": pl.String for i in range(MEGATRON_FIELDS + 2)}
    table = pl.scan_csv(
        log, has_header=False, separator="|", quote_char=None, schema=schema, truncate_ragged_lines=True
    )
    megatron_fields(pl, table.filter(pl.col("field_0").str.starts_with(" [")), out)


def megatron_fields(pl, table, out):
    """The order of the fields is the first line's: to look for every name in every line takes longer."""
    first, *fields = table.head(1).collect().row(0)[: MEGATRON_FIELDS + 1]
    begins = first.index("iteration") + len("iteration ")
    names = [field.split(":")[0].strip() for field in fields]
    numbers = [pl.col(f"field_{i + 1}").str.slice(len(name) + 3) for i, name in enumerate(names)]
    table.select(
        pl.col("field_0").str.slice(2, 19).str.to_datetime("%Y-%m-%d %H:%M:%S").alias("time"),
        pl.col("field_0").str.slice(begins, 8).str.strip_chars().cast(pl.Int64).alias("step"),
        *[
            number.str.strip_chars().cast(pl.Float64).alias("loss" if name == "lm loss" else name)
            for name, number in zip(names, numbers)
        ],
    ).sink_parquet(out)


def megatron_python_regex(log, out):
    import re
    from datetime import datetime

    number = r"([-+0-9.eE]+|nan|inf|NAN|INF)"
    keys = {
        "consumed_samples": "consumed samples",
        "elapsed_ms": r"elapsed time per iteration \(ms\)",
        "tflops": r"throughput per GPU \(TFLOP/s/GPU\)",
        "learning_rate": "learning rate",
        "global_batch_size": "global batch size",
        "loss": "lm loss",
        "loss_scale": "loss scale",
        "grad_norm": "grad norm",
        "num_zeros": "num zeros",
        "param_norm": "params norm",
        "skipped": "number of skipped iterations",
        "nan": "number of nan iterations",
    }
    fields = "".join(rf"\s*{key}:\s+{number}\s*\|" for key in keys.values())
    line = re.compile(rf"^ \[([^\]]+)\] iteration\s+(\d+)/\s*\d+ \|{fields}")
    times, steps, columns = [], [], [[] for _ in keys]
    with open(log) as file:
        for text in file:
            found = line.match(text)
            if found is None:
                continue
            time, step, *values = found.groups()
            times.append(datetime.fromisoformat(time))
            steps.append(int(step))
            for column, value in zip(columns, values):
                column.append(float(value))
    write(out, {"time": times, "step": steps, **dict(zip(keys, columns))})


# torchtitan's console


def torchtitan_polars_extract(log, out):
    import polars as pl

    def extract(name, pattern):
        return pl.col("line").str.extract(pattern).str.replace_all(",", "", literal=True).cast(pl.Float64).alias(name)

    number = r"\s*([0-9.,eE+-]+|nan|inf)"
    lines_of(pl, log).filter(pl.col("line").str.contains("loss:", literal=True)).select(
        pl.col("line").str.extract(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})").str.to_datetime("%Y-%m-%d %H:%M:%S,%3f")
        .alias("time"),
        extract("step", r"step:\s*(\d+)").cast(pl.Int64),
        extract("loss", "loss:" + number),
        extract("grad_norm", "grad_norm:" + number),
        extract("memory_gib", "memory:" + number),
        extract("memory_percent", r"\(([0-9.]+)%\)"),
        extract("tps", "tps:" + number),
        extract("tflops", "tflops:" + number),
        extract("mfu", "mfu:" + number),
    ).sink_parquet(out)


def torchtitan_python_regex(log, out):
    import re
    from datetime import datetime

    colour = re.compile(r"\x1b\[[0-9;]*m")
    number = r"\s*([0-9.,eE+-]+|nan|inf)"
    names = ["loss", "grad_norm", "memory_gib", "memory_percent", "tps", "tflops", "mfu"]
    line = re.compile(
        r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - root - INFO - step:\s*(\d+)  loss:" + number + "  grad_norm:" + number
        + r"  memory:" + number + r"GiB\(([0-9.]+)%\)  tps:" + number + "  tflops:" + number + "  mfu:" + number + "%"
    )
    times, steps, columns = [], [], [[] for _ in names]
    with open(log) as file:
        for text in file:
            found = line.search(colour.sub("", text))
            if found is None:
                continue
            time, step, *values = found.groups()
            times.append(datetime.fromisoformat(time))
            steps.append(int(step))
            for column, value in zip(columns, values):
                column.append(float(value.replace(",", "")))
    write(out, {"time": times, "step": steps, **dict(zip(names, columns))})


# JSON lines


def jsonl_polars(log, out):
    import polars as pl

    pl.read_ndjson(log).write_parquet(out)


def jsonl_polars_scan(log, out):
    import polars as pl

    pl.scan_ndjson(log).sink_parquet(out)


def jsonl_duckdb(log, out):
    import duckdb

    duckdb.sql(f"copy (from read_json('{log}', format = 'newline_delimited')) to '{out}' (format parquet)")


def jsonl_pandas(log, out):
    import pandas as pd

    pd.read_json(log, lines=True).to_parquet(out)


# CSV


def csv_polars(log, out):
    import polars as pl

    pl.read_csv(log).write_parquet(out)


def csv_polars_scan(log, out):
    import polars as pl

    pl.scan_csv(log).sink_parquet(out)


def csv_duckdb(log, out):
    import duckdb

    duckdb.sql(f"copy (from read_csv('{log}')) to '{out}' (format parquet)")


def csv_pyarrow(log, out):
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv(log), out)


# TensorBoard


def tensorboard_data_server(log, out):
    """Waits for the end of the one load cycle, then asks for the loss alone."""
    import subprocess
    import tempfile

    import tensorboard_data_server

    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder, "port")
        server = subprocess.Popen(
            [
                tensorboard_data_server.server_binary(),
                f"--logdir={Path(log).parent}",
                "--reload=once",
                "--samples-per-plugin=scalars=all",
                "--port=0",
                f"--port-file={port_file}",
                "--die-after-stdin",
                "--verbose",
            ],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if not any("load cycle" in line and "inish" in line for line in server.stderr):
            sys.exit(f"the data server ended with {server.wait()} before it had loaded")
        points = scalars(int(port_file.read_text()), "lm loss")
        server.stdin.close()
        server.wait()
    write(out, points)


def scalars(port, tag):
    """All points of one tag, over the protocol that TensorBoard itself uses."""
    import grpc
    from tensorboard.data.proto import data_provider_pb2 as messages
    from tensorboard.data.proto import data_provider_pb2_grpc

    channel = grpc.insecure_channel(f"localhost:{port}", options=[("grpc.max_receive_message_length", -1)])
    stub = data_provider_pb2_grpc.TensorBoardDataProviderStub(channel)
    request = messages.ReadScalarsRequest(plugin_filter={"plugin_name": "scalars"}, downsample={"num_points": 2**31 - 1})
    request.run_tag_filter.tags.names.append(tag)
    answer = stub.ReadScalars(request)
    data = answer.runs[0].tags[0].data
    return {"step": list(data.step), "time": list(data.wall_time), "loss": list(data.value)}


def tensorboard_event_accumulator(log, out):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(log, size_guidance={"scalars": 0})
    accumulator.Reload()
    columns = {}
    for tag in accumulator.Tags()["scalars"]:
        events = accumulator.Scalars(tag)
        if not columns:
            columns = {"step": [e.step for e in events], "time": [e.wall_time for e in events]}
        columns["loss" if tag == "lm loss" else tag] = [e.value for e in events]
    write(out, columns)


# W&B


def wandb_own_reader(log, out):
    """The package's DataStore, with the checksums that it makes."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(log)
    rows = []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    write_rows(out, rows)


def wandb_tuned_walk(log, out):
    """The same messages without the package around them: frames cut by hand, no checksums, numbers by float()."""
    record = bare_wandb_messages().Record
    columns = {}
    for data in wandb_records(Path(log).read_bytes()):
        for item in record.FromString(data).history.item:
            nested = item.nested_key
            name = nested[0] if len(nested) == 1 else item.key or "/".join(nested)
            value = float(item.value_json)
            try:
                columns[name].append(value)
            except KeyError:
                columns[name] = [value]
    write(out, {"loss" if name == "train/loss" else name: values for name, values in columns.items()})


def wandb_records(data):
    """Whole records of the log's blocks of 32 KiB."""
    import struct

    header, block = struct.Struct("<IHB"), 32768
    at, end, parts = 7, len(data), []
    while at + 7 <= end:
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, length, kind = header.unpack_from(data, at)
        at += 7
        fragment = data[at : at + length]
        at += length
        if kind == 1:
            yield fragment
        elif kind == 4:
            yield b"".join([*parts, fragment])
            parts = []
        else:
            parts.append(fragment)


def bare_wandb_messages():
    """`wandb_internal_pb2` alone: to import the package takes longer than to read some files."""
    import importlib.util
    import types

    package = types.ModuleType("wandb")
    package.__path__ = importlib.util.find_spec("wandb").submodule_search_locations
    sys.modules["wandb"] = package
    from wandb.proto import wandb_internal_pb2

    return wandb_internal_pb2


# trainer_state.json


def trainer_state_polars(log, out):
    import polars as pl

    pl.read_json(log).select(pl.col("log_history").explode().struct.unnest()).write_parquet(out)


def trainer_state_duckdb(log, out):
    import duckdb

    rows = f"select unnest(log_history, recursive := true) from read_json('{log}', maximum_object_size = 1000000000)"
    duckdb.sql(f"copy ({rows}) to '{out}' (format parquet)")


def trainer_state_python(log, out):
    with open(log) as file:
        write_rows(out, json.load(file)["log_history"])


# Many runs


def runs_polars(folder, out):
    import polars as pl

    pl.scan_ndjson(f"{folder}/*.jsonl", include_file_paths=RUN_COLUMN).sink_parquet(out)


def runs_duckdb(folder, out):
    import duckdb

    source = f"read_json('{folder}/*.jsonl', format = 'newline_delimited', filename = true)"
    duckdb.sql(f"copy (from {source}) to '{out}' (format parquet)")


def runs_pandas(folder, out):
    import pandas as pd

    files = sorted(Path(folder).glob("*.jsonl"))
    tables = [pd.read_json(file, lines=True).assign(**{RUN_COLUMN: file.name}) for file in files]
    pd.concat(tables, ignore_index=True).to_parquet(out)


# What they share


def lines_of(pl, log):
    """A log as a table of one column: no byte of a line is the separator."""
    return pl.scan_csv(
        log, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String}, truncate_ragged_lines=True
    )


def write(out, columns):
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table(columns), out)


def write_rows(out, rows):
    names = dict.fromkeys(name for row in rows for name in row)
    write(out, {"loss" if n == "train/loss" else n: [row.get(n) for row in rows] for n in names})


PEERS = {
    "megatron.log": {
        "polars str.split": megatron_polars_split,
        "polars, bars as CSV": megatron_polars_csv,
        "Python regex": megatron_python_regex,
    },
    "torchtitan.log": {"polars str.extract": torchtitan_polars_extract, "Python regex": torchtitan_python_regex},
    "metrics.jsonl": {
        "DuckDB": jsonl_duckdb,
        "polars": jsonl_polars,
        "polars, streaming": jsonl_polars_scan,
        "pandas": jsonl_pandas,
    },
    "metrics.csv": {
        "polars": csv_polars,
        "polars, streaming": csv_polars_scan,
        "DuckDB": csv_duckdb,
        "pyarrow": csv_pyarrow,
    },
    "tensorboard": {
        "TensorBoard's data server": tensorboard_data_server,
        "EventAccumulator": tensorboard_event_accumulator,
    },
    "run-bench000.wandb": {"tuned protobuf walk": wandb_tuned_walk, "wandb's own reader": wandb_own_reader},
    "trainer_state.json": {
        "polars": trainer_state_polars,
        "DuckDB": trainer_state_duckdb,
        "Python json": trainer_state_python,
    },
    "runs": {"DuckDB": runs_duckdb, "polars": runs_polars, "pandas": runs_pandas},
}


def check(files):
    import polars as pl

    rows = pl.scan_parquet(files).select(pl.len(), pl.col("loss").cast(pl.Float64).sum())
    count, total = rows.collect().row(0)
    print(json.dumps({"rows": count, "loss": total}))


def main(arguments):
    match arguments:
        case ["list"]:
            print(json.dumps({name: list(peers) for name, peers in PEERS.items()}))
        case ["check", *files] if files:
            check(files)
        case [which, peer, log, out]:
            PEERS[which][peer](log, out)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
