enter "$2" ''
n=$3
target
[ -d "./$n" ] && no folder
[ -f "./$n" ] || { [ -e "./$n" ] && no special; no missing; }
[ -r "./$n" ] || no permission
if [ -n "$(find "./$n" -prune -size "+$4c" 2>/dev/null)" ]; then
  set -- $(ls -ldn "./$n")
  no "large $5"
fi
{
  # What was opened is what counts, where the system tells its place.
  if p=$(readlink /proc/self/fd/0 2>/dev/null); then
    case $p in "$r0"/*) ;; *) no outside ;; esac
  fi
  head -c "$(($4 + 1))"
} <"./$n"
