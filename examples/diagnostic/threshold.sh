#!/bin/sh
# A rule with one threshold as an arm of an experiment: a driver of kind `command`, output `text`.
#
#   sh threshold.sh FEATURE LIMIT      malignant when the feature is above the limit
#
# The job is one line of JSON on stdin, the answer is what is printed. Anything but exit status 0
# says that the infrastructure failed.
exec awk -v feature="$1" -v limit="$2" '
    match($0, "\"" feature "\" *: *\"?[0-9.]+") {
        value = substr($0, RSTART, RLENGTH)
        sub(/.*[:" ]/, "", value)
        print (value + 0 > limit + 0) ? "malignant" : "benign"
        answered = 1
    }
    END {
        if (!answered) exit 1
    }
'
