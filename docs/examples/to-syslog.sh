#!/bin/sh
# Hook for any event: writes it to syslog as one line of JSON. An optional argument is the socket instead of /dev/log.
exec logger ${1:+--socket "$1" --socket-errors=on} --tag sysop --priority authpriv.notice --size 16KiB
