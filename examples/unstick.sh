#!/bin/sh
# Every request of a session is refused as too long: make it short enough to go on.
#
#   examples/unstick.sh ~/.dsh/sessions/--home-me-project--/0c4f.../session.v4.jsonl
#
# Close the harness first: its lock keeps this out. The log is only appended to.
set -eu
log=$1

dshc verify "$log"                         # what is damaged is mended first: dshc repair
dshc compact --force "$log"                # what was folded, and to how much; or why nothing was
dshc measure --check "$log"                # exit code 1 where it is still too much
