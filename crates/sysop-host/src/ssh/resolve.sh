# Tells of the file $1: its place, when it was changed, and its text if it is to be run and short.
file() {
  real "$1" || return 1
  printf 'f\0%s\0' "$R"
  if [ "$a" = r ]; then
    m=$(cd -P -- "$R" 2>/dev/null || exit 0; count=0; repository) || return 1
    [ "${#m}" -le "$text_max" ] || return 1
    printf '0\0s%s\0' "$m"
    return 0
  fi
  [ -e "$1" ] || [ -L "$1" ] || { printf '0\0m\0'; return 0; }
  [ "$a" = x ] && [ -f "$R" ] || { printf '0\0n\0'; return 0; }
  m=$(stat -c %Z "$R" 2>/dev/null || stat -f %c "$R" 2>/dev/null)
  printf '%s\0' "$m"
  s=$(wc -c <"$R" 2>/dev/null | tr -d ' ') || s=
  if [ "$s" ] && [ "$s" -le "$text_max" ] && [ "$(tr -d '\000' <"$R" | wc -c | tr -d ' ')" = "$s" ]; then
    printf 's'; tr -d '\000' <"$R"; printf '\0'
  else
    printf 'n\0'
  fi
}
# Prints the names of what the repository here and those inside it set; fails where it cannot tell.
repository() {
  count=$((count+1)); [ "$count" -le "$repositories_max" ] || return 1
  command -v git >/dev/null 2>&1 || return 0
  n=$(git -c core.fsmonitor=false config --local --includes --name-only --list 2>/dev/null); e=$?
  [ "$e" != 128 ] || return 0
  [ "$e" = 0 ] || return 1
  printf '%s\n' "$n" | grep -v -e '^branch\.' -e '^remote\..*\.url$' -e '^remote\..*\.fetch$' -e '^remote\..*\.pushurl$'
  u=$(git -c core.fsmonitor=false rev-parse --show-cdup 2>/dev/null) || return 0
  cd -P -- "./$u" || return 1
  i=$(git -c core.fsmonitor=false ls-files --stage) || return 1
  i=$(printf '%s\n' "$i" | sed -n 's/^160000 [^	]*	//p')
  while [ "$i" ]; do
    p=${i%%"$nl"*}
    case $i in *"$nl"*) i=${i#*"$nl"} ;; *) i= ;; esac
    case $p in '"'*) return 1 ;; esac
    [ -e "$p/.git" ] || [ -L "$p/.git" ] || continue
    h=$PWD
    cd -P -- "./$p" || return 1
    (repository) || return 1
    count=$((count+1)); cd -- "$h"
  done
  return 0
}
# Resolves one target; what it prints counts only if it succeeds.
target() {
  b= w=$word
  case $word in
  '~'*)
    u=${word#?}; case $u in */*) w=${u#*/} u=${u%%/*} ;; *) w= ;; esac
    case $u in
    '') b=$home ;;
    *[!A-Za-z0-9._-]*|-*) return 1 ;;
    *) eval "b=~$u" ;;
    esac ;;
  /*) b=/ w=${word#/} ;;
  *) b=$folder ;;
  esac
  case $b in /*) ;; *) return 1 ;; esac
  case $b in /) file "/$w" ;; *) file "$b/$w" ;; esac || return 1
  [ "$glob" = g ] || return 0
  case $w in *'**'*|*'('*|*'\'*) return 1 ;; esac
  w=${w#"${w%%[!/]*}"}
  cd -P -- "$b" 2>/dev/null || return 1
  count=0
  for p in ./$w; do
    count=$((count+1)); [ "$count" -le "$files_max" ] || return 1
    file "$PWD/$p" || return 1
  done
}
home=$1 text_max=$2 files_max=$3 repositories_max=$4; shift 4
while [ $# -ge 4 ]; do
  a=$1 glob=$2 folder=$3 word=$4; shift 4
  (target) && printf 'r\0' || printf 'u\0'
done
