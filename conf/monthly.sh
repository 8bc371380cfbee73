#!/bin/sh
# The release of one month, tried until it is done: conf/monthly.sh CONF DIRECTORY [MONTH]
# DIRECTORY holds month=2026-11 and its like, each with a _SUCCESS when it is complete: half a month would be published
# for good. MONTH is the version too; by default, the last month that is over (by GNU date).

if [ $# -lt 2 ]; then
  echo "usage: conf/monthly.sh CONF DIRECTORY [MONTH]" >&2
  exit 2
fi
month=${3:-$(date -d "$(date +%Y-%m-01) - 1 day" +%Y-%m)}
data=$2/month=$month
here=$(dirname "$0")
case $2 in
  *://*) ;;
  *) "$here/retry.sh" test -e "$data/_SUCCESS" || exit 4 ;;
esac
exec "$here/retry.sh" dpspark release "$1" \
  --set "release.version=$month" --set "source.parquet=$data"
