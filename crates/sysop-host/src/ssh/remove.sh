enter "$2" ''
n=$3
[ -L "./$n" ] && no link
[ -d "./$n" ] && no folder
[ -e "./$n" ] || { [ "$4" = these ] && no changed; no missing; }
[ -f "./$n" ] || no special
[ "$4" = absent ] && no changed
[ "$4" = these ] && { cmp -s - "./$n" || no changed; }
m=$(rm -f "./$n" 2>&1) || system "$m"
