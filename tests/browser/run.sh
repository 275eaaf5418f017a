#!/usr/bin/env bash
# Opens the pages of the bundled runs in a browser: zoom, hover, keyboard, accessibility, print, and nothing from the net.
# Pictures of them are left in browser/ of the target folder, to be looked at.
set -euo pipefail
cd "$(dirname "$0")/../.."

target="${CARGO_TARGET_DIR:-target}"
mkdir -p "$target/browser/pages"
target="$(cd "$target" && pwd)/browser"
if [ -z "${WHYSPIKE:-}" ]; then
  cargo build --quiet --locked
  WHYSPIKE="$(dirname "$target")/debug/whyspike"
fi

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq && apt-get install -y -qq "${missing[@]}" >/dev/null
fi
if ! cmp -s tests/browser/package-lock.json "$target/package-lock.json"; then
  rm -rf "$target/node_modules"
  cp tests/browser/{package.json,.npmrc} "$target"
  cp tests/browser/package-lock.json "$target/package-lock.json.new"
  (cd "$target" && mv package-lock.json.new package-lock.json && npm ci --silent) || { rm -f "$target/package-lock.json"; exit 1; }
fi

for run in fixtures/runs/*; do
  name="$(basename "$run")"
  args=("$run"/*log*)
  [ ! -f "$run/checkpoints.txt" ] || args+=(--checkpoint-steps "$(cat "$run/checkpoints.txt")")
  "$WHYSPIKE" report "${args[@]}" --framework megatron-lm@0.17 -o "$target/pages/$name.html" >/dev/null
done
# No bundled run logs its layers, counts NaN among them, or has a name that is HTML.
awk 'BEGIN {
  for (step = 1; step <= 900; step++) {
    printf "{\"step\": %d, \"loss\": %.4f, \"<b>&\": 1", step, 2 + 0.02 * sin(step * step) + (step > 600 && step < 640 ? 2 : 0)
    for (layer = 0; layer < 12; layer++)
      printf ", \"max_attention_logit/%d\": %s", layer, step == 620 && layer == 3 ? "NaN" : 10 + layer + step / 100
    print "}"
  }
}' > "$target/layers.jsonl"
"$WHYSPIKE" report "$target/layers.jsonl" --checkpoint-every 100 -o "$target/pages/layers.html" >/dev/null
CHROMIUM="$(command -v chromium)" BROWSER_TARGET="$target" node tests/browser/pages.mjs
