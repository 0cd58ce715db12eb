#!/bin/sh
# Which sessions will soon run into their wall? Quiet while none does, so fit for cron.
#
#   examples/check_sessions.sh ~/.dsh/sessions
#
# Exit code 1 where a session is over its threshold, 4 where a log can't be read.
set -eu

code=0
table=$(dshc measure --check "$1" 2>&1) || code=$?
if [ "$code" -ne 0 ]; then
    printf '%s\n' "$table"
fi
exit "$code"
