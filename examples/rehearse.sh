#!/bin/sh
# Does a backend earn its retry, on every session that we have recorded? For CI.
#
#   examples/rehearse.sh ./mine.py:Mine sessions/*.jsonl
#
# Each log is copied, its copy refused by a provider with a wall, and the copy thrown away.
# Exit code 1 where one rehearsal didn't come out as it should.
set -u
backend=$1
shift

failed=0
for log; do
    if complaint=$(dshc recover "$log" --backend "$backend" --expect recovered 2>&1 > /dev/null); then
        echo "ok      $log"
    else
        echo "failed  $log: $complaint"
        failed=1
    fi
done
exit "$failed"
