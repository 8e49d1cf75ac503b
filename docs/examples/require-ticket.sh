#!/bin/sh
# Hook for `command.before`: a change on a host named prod* needs a ticket number (CHG-1234) in the model's reason.
# Quotes inside a JSON string are escaped, so these patterns match keys only.
question=$(cat)
case $question in *'"risk":"read_only"'*) exit 0 ;; esac
case $question in *'"prod'*) ;; *) exit 0 ;; esac
reason=$(printf '%s\n' "$question" | sed -n 's/.*"reason":"\([^"]*\).*/\1/p')
if printf '%s\n' "$reason" | grep -Eq 'CHG-[0-9]{4,}'; then
    exit 0
fi
echo "changes on production need a ticket: name it in the reason, as in CHG-1234" >&2
exit 2
