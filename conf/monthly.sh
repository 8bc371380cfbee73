#!/bin/sh
# The release of one month, tried until it is done: conf/monthly.sh CONF DIRECTORY [MONTH]
# DIRECTORY holds month=2026-11 and its like. MONTH is the version too; by default, the last month that is over.

if [ $# -lt 2 ]; then
  echo "usage: conf/monthly.sh CONF DIRECTORY [MONTH]" >&2
  exit 2
fi
month=${3:-$(date -d "$(date +%Y-%m-01) - 1 day" +%Y-%m)}
exec "$(dirname "$0")/retry.sh" dpspark release "$1" \
  --set "release.version=$month" --set "source.parquet=$2/month=$month"
