#!/bin/sh
# Run a release until it is done: conf/retry.sh COMMAND [ARGUMENT]...
#
# Exit code 0 ends it. So do 2 (bad conf), 3 (the ledger refuses), 126 and 127 (no such command): running again does not
# mend them. Anything else is tried again, a kill too, and 4 (the source or the output: a store that did not answer, data
# that is late), DPSPARK_TRIES times (10) in all, DPSPARK_WAIT seconds (60) apart. Nothing is charged twice, whatever happens.
# SIGTERM and Ctrl-C are passed on to the command, and end the loop.

tries=${DPSPARK_TRIES:-10}
pause=${DPSPARK_WAIT:-60}
child=

stop() {
  trap '' TERM INT HUP
  if [ -n "$child" ]; then
    kill -TERM "$child" 2>/dev/null
    wait "$child"
  fi
  exit 143
}

if [ $# -eq 0 ]; then
  echo "usage: conf/retry.sh COMMAND [ARGUMENT]..." >&2
  exit 2
fi
for number in "$tries" "$pause"; do
  case $number in
    '' | *[!0-9]*)
      echo "retry.sh: DPSPARK_TRIES and DPSPARK_WAIT must be whole numbers" >&2
      exit 2
      ;;
  esac
done
trap stop TERM INT HUP
try=1
while :; do
  "$@" &
  child=$!
  wait "$child"
  code=$?
  case $code in
    0) exit 0 ;;
    2 | 3 | 126 | 127)
      echo "retry.sh: exit code $code; not tried again" >&2
      exit "$code"
      ;;
  esac
  if [ "$try" -ge "$tries" ]; then
    echo "retry.sh: exit code $code after $try tries; giving up" >&2
    exit "$code"
  fi
  echo "retry.sh: exit code $code; try $((try + 1)) of $tries in $pause s" >&2
  sleep "$pause" &
  child=$!
  wait "$child"
  try=$((try + 1))
done
