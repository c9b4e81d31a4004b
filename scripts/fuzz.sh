#!/usr/bin/env bash
# Searches for bytes that make a decoder break a promise: scripts/fuzz.sh SECONDS [TARGET ...]
# The time is shared by all targets (or those named). Each starts from its corpus in tests/fuzz/corpus and from what
# earlier runs found, which stays in build/fuzz/found. An input that breaks a promise is left in build/fuzz/broken and
# ends the run with an error; `build/fuzz/tests/fuzz/b10_fuzz_TARGET FILE` repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift

mkdir -p build/fuzz/broken
cmake --preset fuzz >build/fuzz/configure.log 2>&1 || { cat build/fuzz/configure.log; exit 1; }
cmake --build --preset fuzz --parallel 2

programs=build/fuzz/tests/fuzz
targets=("$@")
if ((${#targets[@]} == 0)); then
  for program in "$programs"/b10_fuzz_*; do
    name=${program##*/b10_fuzz_}
    [[ $name == *.* || $name == replay ]] || targets+=("$name")
  done
fi
share=$((seconds / ${#targets[@]}))
((share > 0)) || share=1
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/found/$target"
  log=build/fuzz/$target.log
  if ! "$programs/b10_fuzz_$target" "build/fuzz/found/$target" "tests/fuzz/corpus/$target" \
    -max_total_time="$share" -artifact_prefix="build/fuzz/broken/$target-" -print_final_stats=1 \
    -timeout=60 -rss_limit_mb=2048 -max_len=8192 -use_value_profile=1 >"$log" 2>&1; then
    tail -n 60 "$log"
    echo "fuzz: $target broke a promise, see build/fuzz/broken"
    exit 1
  fi
  count() { grep -m1 -o "stat::$1: *[0-9]*" "$log" | tr -dc 0-9; }
  echo "fuzz: $target: $(count number_of_executed_units) inputs in $share s," \
    "$(count new_units_added) of them new, no promise broken"
done
