#!/usr/bin/env bash
# Fills corpus/ with the fixtures of the project, one folder a target. What a run found before stays.
set -euo pipefail
cd "$(dirname "$0")"
logs=../fixtures/logs
longest=65536

# WHYSPIKE names a binary that is there already.
whyspike() { if [ -n "${WHYSPIKE:-}" ]; then "$WHYSPIKE" "$@"; else cargo run --quiet --locked --manifest-path ../Cargo.toml -- "$@"; fi; }

# A name that tells the contents apart, so that seeding twice adds nothing.
put() { # TARGET < bytes
  local to="corpus/$1" made
  mkdir -p "$to"
  made=$(mktemp)
  head -c "$longest" >"$made"
  mv "$made" "$to/seed-$(sha1sum <"$made" | cut -c1-16)"
}

# Formats in the order of their table: the first byte of an input of `formats` is a place in it.
mapfile -t formats < <(whyspike formats | grep -E '^[a-z]' | grep -v ' ')

place() { # FORMAT
  local at
  for at in "${!formats[@]}"; do
    if [ "${formats[$at]}" = "$1" ]; then
      printf '%b' "$(printf '\\x%02x' "$at")"
      return
    fi
  done
  echo "no format $1" >&2
  return 1
}

# The format of a fixture is that of its folder, but for the second format of some frameworks.
format_of() { # FILE
  case $1 in
    */composer/metrics.txt) echo composer-file ;;
    */maxtext/metrics.txt) echo maxtext-metrics ;;
    */levanter/tracker.jsonl) echo levanter-json ;;
    */lightning/*) echo lightning-csv ;;
    *) echo "$1" | sed "s|^$logs/||; s|/.*||" ;;
  esac
}

while read -r file; do
  case $file in
    *.gz | *.zst) put packed <"$file" ;;
    *.parquet) put parquet <"$file" ;;
    *.wandb) put wandb <"$file" ;;
    *tfevents*) put tensorboard <"$file" ;;
    *)
      put console <"$file"
      put diagnosis <"$file"
      gzip -nc "$file" | put packed
      ;;
  esac
  case $file in
    */megatron/*.log) put megatron <"$file" ;;
    *.json | *.jsonl) put json <"$file" ;;
    *.csv | *.tsv) put csv <"$file" ;;
  esac
  case $file in
    *.gz | *.zst) ;;
    *) { place "$(format_of "$file")"; cat "$file"; } | put formats ;;
  esac
done < <(find "$logs" -type f)
put megatron <../fixtures/runs/bloom-176b/spike-2022-04-12.log

# Runs that were trained, cut to their first rows; and runs as they are stored.
store=$(mktemp -d)
for run in ../fixtures/runs/*/log.jsonl.gz; do
  gzip -dc "$run" | head -c 30000 >"$store/log.jsonl" || true
  put json <"$store/log.jsonl"
  put diagnosis <"$store/log.jsonl"
  whyspike ingest "$store/log.jsonl" -o "$store/run.parquet"
  put parquet <"$store/run.parquet"
done
for file in "$logs"/megatron/restart.log "$logs"/csv/wide.csv "$logs"/wandb/run-abcd1234.wandb; do
  whyspike ingest "$file" -o "$store/run.parquet"
  put parquet <"$store/run.parquet"
done
rm -r "$store"
