#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, two at a time with one worker
# each, and stops at the first that finds something. What takes datagrams and messages
# from strangers is run for all of the time, the rest for a third of it.
#
#   test/fuzz.sh 30s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
third=$(awk -v t="${time%s}" 'BEGIN { printf "%.0fs", (t < 3 ? 1 : t / 3) }')
[[ $time =~ ^[0-9]+s$ ]] || { echo "fuzz: $time is no time in seconds, such as 30s" >&2; exit 2; }
mkdir -p out/fuzz

# one FOLDER TARGET TIME fuzzes one target. The fuzzer was seen to report its own clock
# ("context deadline exceeded", with no input that fails) as a failure on a busy
# machine; such a run is made again.
one() {
  local log=out/fuzz/$2.log
  for _ in 1 2 3; do
    if go test -run '^$' -fuzz "^$2\$" -fuzztime "$3" -parallel 1 "./$1" >"$log" 2>&1; then
      echo "fuzz $1 $2: $(tail -n 1 "$log")"
      return 0
    fi
    if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input' "$log"; then break; fi
  done
  echo "fuzz $1 $2 failed:"
  cat "$log"
  return 255 # tells xargs to start no more
}
export -f one

for folder in $(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do
  case $folder in
    sip* | rtp* | identity* | media* | call*) long=$time ;;
    *) long=$third ;;
  esac
  go test -list '^Fuzz' "./$folder" | { grep '^Fuzz' || true; } | sed "s|.*|$folder & $long|"
done >out/fuzz/targets.txt
xargs -P 2 -L 1 bash -c 'one "$0" "$1" "$2"' <out/fuzz/targets.txt
echo "fuzz: $(wc -l <out/fuzz/targets.txt) targets, $time or $third each"
