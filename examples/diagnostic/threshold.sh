#!/bin/sh
# A rule with one threshold as an arm of an experiment: a driver of kind `command`, output `text`.
#
#   sh threshold.sh FEATURE LIMIT      malignant when the feature is above the limit
#
# The job is one line of JSON on stdin; the answer is what is printed.
set -eu
read -r job
value=$(printf '%s\n' "$job" | sed -n "s/.*\"$1\" *: *\"\{0,1\}\([0-9.][0-9.]*\).*/\1/p")
[ -n "$value" ] || { echo "no $1 in the job" >&2; exit 1; }
awk -v value="$value" -v limit="$2" 'BEGIN { print (value > limit) ? "malignant" : "benign" }' </dev/null
