# $4 is a fresh name, $5 what has to be there (any, absent, these), $6 its length, $7 the length of the new bytes.
enter "$2" 1
n=$3
target
[ -d "./$n" ] && no folder
there=
if [ -e "./$n" ]; then
  [ -f "./$n" ] || no special
  there=1
  own=$(stat -c '%a %u:%g' "./$n" 2>/dev/null || stat -f '%Mp%Lp %u:%g' "./$n" 2>/dev/null) || no permission
elif [ "$linked" ]; then
  no dangling
fi
[ "$5" = absent ] && [ "$there" ] && no changed
[ "$5" = these ] && ! [ "$there" ] && no changed
new=./$4 both=./$4.b
trap 'rm -f "$new" "$both"' EXIT
trap 'exit 43' HUP INT PIPE TERM
create() {
  ( [ -z "$there" ] || umask 077; set -C; : >"$1" ) 2>/dev/null || { [ -w . ] || no permission; m=$( (set -C; : >"$1") 2>&1 ); system "$m"; }
}
size() { [ "$(wc -c <"$1")" -eq "$2" ]; }
create "$new"
if [ "$5" = these ]; then
  create "$both"
  m=$(cat 2>&1 >"$both") || system "$m"
  size "$both" "$(($6 + $7))" || no short
  head -c "$6" "$both" | cmp -s - "./$n" || no changed
  m=$(tail -c "+$(($6 + 1))" "$both" 2>&1 >"$new") || system "$m"
else
  m=$(cat 2>&1 >"$new") || system "$m"
fi
size "$new" "$7" || no short
# On the disk before it has the name. A `sync` that takes no file would write all that the machine has.
case $(sync --help 2>&1 </dev/null) in
*FILE*) m=$(sync "$new" 2>&1) || system "$m" ;;
esac
if [ "$there" ]; then
  # Only root may give a file away; then it stays ours, as with any editor.
  [ "$(stat -c '%u:%g' "$new" 2>/dev/null || stat -f '%u:%g' "$new")" = "${own#* }" ] ||
    chown "${own#* }" "$new" 2>/dev/null
  m=$(chmod "${own% *}" "$new" 2>&1) || system "$m"
fi
# Where mv knows -T it replaces whatever has the name by now; else the last look has to do.
m=$(mv -fT "$new" "./$n" 2>&1) || {
  [ -d "./$n" ] && no folder
  m=$(mv -f "$new" "./$n" 2>&1) || system "$m"
}
