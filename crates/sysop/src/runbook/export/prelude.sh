set -u
LC_ALL=C
export LC_ALL
nl='
'
n=0 undo='' out='' why='' name='' on_fail=stop
# Like sysop: bash if there is one, else sh.
shell=$(command -v bash || command -v sh)

say() { printf '%s\n' "$*" >&2; }

# value NAME PATTERN: the whole value must match, in one line.
value() {
  eval "given=\$$1"
  case $given in *"$nl"*) say "$1: more than one line"; exit 2 ;; esac
  [ -z "$2" ] || printf '%s\n' "$given" | grep -Eqx -e "$2" || { say "$1: must match $2"; exit 2; }
}

# begin NAME ON_FAIL
begin() {
  n=$((n + 1)) name=$1 on_fail=$2 why=''
  say "== $n of $total: $name"
}

sub() { "$shell" -c "$1" </dev/null; }

# needed COMMAND: false if the step is already done.
needed() {
  if sub "$1" >/dev/null 2>&1; then say 'already done: skipped'; return 1; fi
}

check() { sub "$1" || { why="the check before it: exit code $?"; return 1; }; }

# file_is SHA256 FILE: the hash before the change, or `absent`.
file_is() {
  now=absent
  [ ! -e "$2" ] || { now=$(sha256sum -- "$2") && now=${now%% *} && now=${now#\\}; }
  [ "$now" = "$1" ] || { why="$2 is not the expected file: sha256 $now, expected $1"; return 1; }
}

# run EXIT_CODES COMMAND
run() {
  say "\$ $2"
  out=$(sub "$2" 2>&1; echo "x$?")
  rc=${out##*x}
  out=${out%x*}
  printf '%s' "$out"
  case " $1 " in *" $rc "*) ;; *) why="exit code $rc, expected $1"; return 1 ;; esac
}

output_has() { printf '%s\n' "$out" | grep -Eq -e "$1" || { why="the output does not match $1"; return 1; }; }
output_lacks() { ! printf '%s\n' "$out" | grep -Eq -e "$1" || { why="the output matches $1"; return 1; }; }

# verify TIMES SECONDS COMMAND
verify() {
  tries=0
  while ! sub "$3"; do
    tries=$((tries + 1))
    [ "$tries" -lt "$1" ] || { why='the check after it failed'; return 1; }
    sleep "$2"
  done
}

# ask QUESTION: only a person can answer.
ask() {
  [ -t 0 ] || { say "step $n needs a person: $1"; exit 3; }
  printf '%s [y/N] ' "$1" >&2
  read -r answer || answer=''
  case $answer in y | Y | yes) ;; *) why=declined on_fail=stop; return 1 ;; esac
}

undo_by() { undo="$1$nl$undo"; }

failed() {
  [ "$on_fail" != continue ] || { say "failed, continuing: $why"; return 0; }
  say "stopped at step $n of $total ($name): $why"
  [ -z "$undo" ] || { say 'to undo the steps so far, in this order:'; printf '%s' "$undo" >&2; }
  exit 1
}
