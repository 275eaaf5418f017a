#!/usr/bin/env bash
# Runs the notebooks as a reader would: a failed assertion fails. With --write their outputs are kept in place.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-target}"
mkdir -p "$target"
target="$(cd "$target" && pwd)"
if [ -z "${WHYSPIKE:-}" ]; then
  cargo build --quiet --locked
  WHYSPIKE="$target/debug/whyspike"
fi
export WHYSPIKE

venv="$target/notebooks-venv"
if ! cmp -s notebooks/requirements.txt "$venv/requirements.txt"; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r notebooks/requirements.txt
  cp notebooks/requirements.txt "$venv/requirements.txt"
fi

# Figures look for fonts once, not within a notebook, which would say so.
export MPLCONFIGDIR="$target/notebooks-matplotlib"
"$venv/bin/python" -c "import matplotlib.font_manager"

where=(--output-dir "$target/notebooks")
[ "${1:-}" != --write ] || where=(--inplace)
for notebook in notebooks/*.ipynb; do
  PYTHONDONTWRITEBYTECODE=1 "$venv/bin/jupyter" nbconvert --log-level ERROR --to notebook --execute \
    --ExecutePreprocessor.timeout=600 --ExecutePreprocessor.record_timing=False \
    "${where[@]}" "$notebook"
done
