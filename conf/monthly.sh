#!/bin/sh
# The release of one month, tried until it is done: conf/monthly.sh CONF DIRECTORY [MONTH]
# DIRECTORY holds month=2026-11 and its like, or year=2026/month=11 (month=1 or month=01 for January), each with a _SUCCESS
# when it is complete: half a month would be published for good. MONTH is 2026-11, and the version too; by default, the last
# month that is over (by GNU date). DIRECTORY may also say the layout itself, which it must in a store (s3a://...) where it is
# not month=2026-11: {year} and {month} (01 to 12) or {month1} (1 to 12) in it are filled in.

if [ $# -lt 2 ]; then
  echo "usage: conf/monthly.sh CONF DIRECTORY [MONTH]" >&2
  exit 2
fi
conf=$1 directory=$2
month=${3:-$(date -d "$(date +%Y-%m-01) - 1 day" +%Y-%m)}
here=$(dirname "$0")
case $month in
  [0-9][0-9][0-9][0-9]-0[1-9] | [0-9][0-9][0-9][0-9]-1[0-2])
    year=${month%-*}
    two=${month#*-}
    one=${two#0}
    ;;
  [0-9][0-9][0-9][0-9]-0[1-9][!0-9]* | [0-9][0-9][0-9][0-9]-1[0-2][!0-9]*) year= ;; # such as 2026-11-r2
  [0-9][0-9][0-9][0-9]-[0-9]*)
    echo "monthly.sh: MONTH '$month' is no month; expected 2026-01 to 2026-12 and their like, with two digits" >&2
    exit 2
    ;;
  *) year= ;;
esac

# Where the month may be.
case $directory in
  *'{'*'}'*)
    set -- "$(printf '%s\n' "$directory" | sed -e "s/{year}/$year/g" -e "s/{month}/$two/g" -e "s/{month1}/$one/g")"
    case ${year:-none}$1 in
      none* | *'{'*'}'*)
        echo "monthly.sh: DIRECTORY '$directory', MONTH '$month'; expected {year}, {month} or {month1}, and a month such as 2026-11" >&2
        exit 2
        ;;
    esac
    ;;
  *)
    set -- "$directory/month=$month"
    case ${year:-none}$directory in
      none* | *://*) ;;
      *) set -- "$1" "$directory/year=$year/month=$two" ;;
    esac
    if [ $# -eq 2 ] && [ "$one" != "$two" ]; then
      set -- "$@" "$directory/year=$year/month=$one"
    fi
    ;;
esac

# Which of them is complete. A store cannot be looked into from here.
data=$1
case $directory in
  *://*) ;;
  *)
    "$here/retry.sh" sh -c '
      for place do [ -e "$place/_SUCCESS" ] && exit 0; done
      waited=
      for place do
        there=
        [ -d "$place" ] || there=" (no such directory)"
        waited="$waited${waited:+ or }$place/_SUCCESS$there"
      done
      echo "monthly.sh: waiting for $waited" >&2
      exit 1' sh "$@" || exit 4
    data=
    for place do
      if [ -e "$place/_SUCCESS" ]; then
        if [ -n "$data" ]; then
          echo "monthly.sh: $month is there twice, in $data and $place. Say which, as in '$directory/year={year}/month={month}'" >&2
          exit 2
        fi
        data=$place
      fi
    done
    ;;
esac
exec "$here/retry.sh" dpspark release "$conf" \
  --set "release.version=$month" --set "source.parquet=$data"
