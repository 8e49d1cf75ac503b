# Functions for the checks of the tasks. `$BEFORE` is a copy of the workspace after its set-up.
set -u

# is FILE TEXT: the file has these contents. Blanks at the end of a line and empty lines at the end do not count.
is() {
    [ -f "$1" ] || { echo "no file $1"; return 1; }
    [ "$(sed 's/[[:blank:]]*$//' "$1")" = "$2" ] || { echo "$1 has other contents:"; head -n 20 "$1"; return 1; }
}

# mode FILE MODE: the file's permissions, in octal.
mode() {
    [ "$(stat -c %a "$1")" = "$2" ] || { echo "$1 has the mode $(stat -c %a "$1")"; return 1; }
}

# json FILE TEXT: the file is this JSON, whatever its layout.
json() {
    [ "$(sqlite3 :memory: "select json(cast(readfile('$1') as text))" 2>&1)" = "$2" ] || {
        echo "$1 has other contents"; return 1
    }
}

# query FILE SQL TEXT: the query of the database prints this.
query() {
    [ -f "$1" ] && [ "$(sqlite3 "$1" "$2" 2>&1)" = "$3" ] || { echo "$1 has other rows"; return 1; }
}

# list FOLDER: one line for each file, with its kind, mode, link target and the sum of its contents.
list() (
    cd "$1" || exit 1
    find . -mindepth 1 -printf '%P\t%y\t%m\t%l\n'
    find . -type f -printf '%P\0' | xargs -0r sha256sum | sed 's/^\\\{0,1\}\([0-9a-f]*\) .\(.*\)$/\2\tsum\t\1/'
)

# only NAME...: nothing except these files and what lies in these folders differs from before.
only() {
    list "$BEFORE" | LC_ALL=C sort >"$SCRATCH/before"
    list . | LC_ALL=C sort >"$SCRATCH/after"
    LC_ALL=C comm -3 "$SCRATCH/before" "$SCRATCH/after" | sed 's/^\t//' | cut -f1 | sort -u >"$SCRATCH/changed"
    for name in "$@"; do
        awk -v name="$name" '$0 != name && index($0, name "/") != 1' "$SCRATCH/changed" >"$SCRATCH/rest"
        mv "$SCRATCH/rest" "$SCRATCH/changed"
    done
    [ ! -s "$SCRATCH/changed" ] || { echo "changed as well:"; cat "$SCRATCH/changed"; return 1; }
}

# fail TEXT: ends the check.
fail() {
    echo "$1"
    exit 1
}
set -e
