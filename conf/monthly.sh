#!/bin/sh
# The release of one month, tried until it is done: conf/monthly.sh CONF DIRECTORY [MONTH]
# DIRECTORY holds month=2026-11 and its like, or year=2026/month=11, or year=2026/month=7, each with a _SUCCESS when
# it is complete: half a month would be published for good. In a store, which is not looked at here, and for any other
# layout, say where year and month stand: s3://bucket/people/year=YYYY/month=MM (or month=M, without the zero).
# MONTH (2026-11) is the version too; by default, the last month that is over (by GNU date).

if [ $# -lt 2 ]; then
  echo "usage: conf/monthly.sh CONF DIRECTORY [MONTH]" >&2
  exit 2
fi
month=${3:-$(date -d "$(date +%Y-%m-01) - 1 day" +%Y-%m)}
case $month in
  [0-9][0-9][0-9][0-9]-0[1-9] | [0-9][0-9][0-9][0-9]-1[0-2]) ;;
  *)
    echo "monthly.sh: MONTH $month; expected a year and a month, such as 2026-11" >&2
    exit 2
    ;;
esac
year=${month%-*}
number=${month#*-}
short=${number#0}
here=$(dirname "$0")
case $2 in
  *YYYY*)
    data=$(printf '%s\n' "$2" |
      sed "s/YYYY/$year/g; s/MM/$number/g; s/=M\$/=$short/; s/=M\//=$short\//g")
    ;;
  *://*) data=$2/month=$month ;;
  *)
    one=$2/month=$month two=$2/year=$year/month=$number three=$2/year=$year/month=$short
    "$here/retry.sh" test -e "$one/_SUCCESS" -o -e "$two/_SUCCESS" -o -e "$three/_SUCCESS" || exit 4
    data=
    for each in "$one" "$two" "$three"; do
      if [ -e "$each/_SUCCESS" ] && [ "$each" != "$data" ]; then
        if [ -n "$data" ]; then
          echo "monthly.sh: both $data and $each are there. Say which: DIRECTORY/year=YYYY/month=MM, for one" >&2
          exit 2
        fi
        data=$each
      fi
    done
    ;;
esac
case $data in
  *://*) ;;
  *) "$here/retry.sh" test -e "$data/_SUCCESS" || exit 4 ;;
esac
exec "$here/retry.sh" dpspark release "$1" \
  --set "release.version=$month" --set "source.parquet=$data"
