LC_ALL=C; export LC_ALL; unset CDPATH
no() { printf '%s' "$1" >&2; exit 40; }
system() { printf '%s' "$1" >&2; exit 41; }
nl='
'
root=$1; r0=${root%/}; links=0; tail=-1; linked=
cd -P -- "$root" 2>/dev/null || no root
# Puts what the link ./$1 points to into $t.
follow() {
  links=$((links+1)); [ "$links" -le 40 ] || no loop
  t=$(readlink "./$1" && printf .) || no missing
  t=${t%.}; t=${t%"$nl"}
  case $t in /*) no outside ;; '') no missing ;; esac
}
inside() { case $PWD/ in "$r0"/*) ;; *) no outside ;; esac; }
# Goes into the folder $1, name by name; makes what is missing if $2 says so, but not what a link points to.
enter() {
  p=$1/
  while [ "$p" ]; do
    c=${p%%/*}; p=${p#*/}
    case $c in
    ''|.) continue ;;
    ..)
      [ "$PWD" = "$root" ] && no outside
      cd -P .. 2>/dev/null || no permission
      inside
      continue ;;
    esac
    if [ -L "./$c" ]; then
      follow "$c"
      [ "$tail" -ge 0 ] && [ "${#p}" -ge "$tail" ] || tail=${#p}
      p=$t/$p
      continue
    fi
    if ! [ -d "./$c" ]; then
      [ -e "./$c" ] && no notdir
      [ "$2" ] || no missing
      [ "$tail" -ge 0 ] && [ "${#p}" -ge "$tail" ] && no dangling
      m=$(mkdir "./$c" 2>&1) || [ -d "./$c" ] || system "$m"
    fi
    cd -P "./$c" 2>/dev/null || { [ -d "./$c" ] && no permission; no missing; }
    inside
  done
}
# Follows links from the name $n in this folder to the name that they stand for.
target() {
  while [ -L "./$n" ]; do
    follow "$n"
    linked=1
    case $t in */*) d=${t%/*} b=${t##*/} ;; *) d=. b=$t ;; esac
    case $b in ''|.|..) enter "$t" ''; no folder ;; esac
    case $d in '') no outside ;; esac
    enter "$d" ''
    n=$b
  done
}
