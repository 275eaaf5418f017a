#!/usr/bin/env bash
# Runs targets one after another: run.sh [-s SECONDS] TARGET... (all if none is named). Logs are in logs/.
set -euo pipefail
cd "$(dirname "$0")"
seconds=600
if [ "${1:-}" = -s ]; then
  seconds=$2
  shift 2
fi
[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\(.*\)"$/\1/p' Cargo.toml | grep -v whyspike)

# The sanitizers are options of the nightly compiler, which the stable one takes when told to.
export RUSTC_BOOTSTRAP=1 RUSTC_WRAPPER="$PWD/lean-rustc"
# Logs are written to memory, and freed memory is held back less than usual: it counts against the limit.
[ -d /dev/shm ] && export TMPDIR=/dev/shm
export ASAN_OPTIONS="quarantine_size_mb=64:${ASAN_OPTIONS:-}"

mkdir -p logs
failed=0
for target; do
  mkdir -p "corpus/$target"
  words=dictionaries/words.dict
  printf '== %s\n' "$target"
  cargo fuzz run --fuzz-dir . "$target" -- "-max_total_time=$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -malloc_limit_mb=512 -detect_leaks=0 "-dict=$words" -print_final_stats=1 >"logs/$target.log" 2>&1 || failed=1
  grep -E 'ERROR|SUMMARY|panicked|Test unit written|stat::' "logs/$target.log" || true
  grep -E 'cov: ' "logs/$target.log" | tail -n 1
done
exit $failed
