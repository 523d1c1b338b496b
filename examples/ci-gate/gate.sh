#!/bin/sh
# The gate of a CI pipeline: passes only if the worker approves the change, and otherwise prints the reason.
verdict=$(mktemp) && trap 'rm -f "$verdict"' EXIT
forge run "$(dirname "$0")" "Review the change." -C "$(dirname "$0")" -p --on-ask fail --output-format json "$@" > "$verdict"
code=$?
case $code in
    0) grep -q '"merge": true' "$verdict" && echo "may be merged" && exit 0
       echo "must not be merged:"; cat "$verdict"; exit 1 ;;
    4) echo "stopped: the worker wanted a call that the pipeline does not allow" ;;
    5) echo "stopped: a limit was reached" ;;
    6) echo "stopped: the worker gave no valid verdict" ;;
    7) echo "the model could not be reached; try again" ;;
    *) echo "the gate itself is broken ($code)" ;;
esac
exit $code
