# Follows the repository at the root to all that git would read of it. Prints the settings, or ends with 3 and names the
# first thing that leads outside of the root. Nothing that the repository names is run.
set -f
exec 2>/dev/null
walked=$nl count=0
# Ends: what $1 names is at $R, outside of the root.
outside() { printf 'outside\0%s\0%s' "$1" "$R"; exit 3; }
# Ends: the repository cannot be followed, for the reason $1.
unknown() { printf 'unknown\0%s' "$1"; exit 3; }
# Sets $R to the place of the path $2, which $1 names.
follow() {
  real "$2" || unknown "$1 cannot be followed"
  case $R/ in "${root%/}"/*) ;; *) outside "$1" ;; esac
}
# Sets $T to the text of the file $1 without line breaks at its end, as git reads a path.
text() {
  [ -f "$1" ] && s=$(wc -c <"$1") && [ "$s" -le "$text_max" ] &&
    [ "$(tr -d '\000' <"$1" | wc -c)" -eq "$s" ] || unknown "$1 cannot be read"
  T=$(cat <"$1") || unknown "$1 cannot be read"
  while :; do case $T in *"$cr") T=${T%"$cr"} ;; *"$nl") T=${T%"$nl"} ;; *) break ;; esac; done
}
# Sets $G to the repository of the folder $1, whose name for people is $2, and $C to the one that it shares.
open() {
  follow "$2.git" "$1/.git"; G=$R
  if [ -f "$G" ]; then
    text "$G"
    case $T in 'gitdir: '/*) T=${T#gitdir: } ;; 'gitdir: '?*) T=$1/${T#gitdir: } ;; *) unknown "$2.git does not name a repository" ;; esac
    follow "$2.git" "$T"; G=$R
  fi
  C=$G
  if [ -e "$G/commondir" ] || [ -L "$G/commondir" ]; then
    follow "commondir in $2.git" "$G/commondir"; text "$G/commondir"
    case $T in /*) ;; *) T=$G/$T ;; esac
    follow "commondir in $2.git" "$T"; C=$R
  fi
}
# Follows each link in the folder $1.
links() {
  case $walked in *"$nl$1$nl"*) return ;; esac
  walked=$walked$1$nl count=$((count+1)); [ "$count" -le "$files_max" ] || unknown 'the repository has too many links'
  L=$(find "$1" -type l) || L=$(find "$1" -type l) || unknown "$1 cannot be read"
  [ "$L" ] || return 0
  [ -z "$(find "$1" -type l -name "*$nl*")" ] || unknown "$1 has a link whose name has a line break"
  IFS=$nl
  for l in $L; do
    count=$((count+1)); [ "$count" -le "$files_max" ] || unknown 'the repository has too many links'
    follow "the link ${l#"${root%/}"/}" "$l"
    [ ! -d "$R" ] || links "$R"
  done
}
# Follows the objects in the folder $1 to those that it borrows.
objects() {
  real "$1" || unknown "$1 cannot be followed"; links "$R"
  set -- "$R"
  [ ! -e "$1/info/http-alternates" ] || unknown "$1/info/http-alternates refers to objects on a server"
  [ -e "$1/info/alternates" ] || return 0
  count=$((count+1)); [ "$count" -le "$files_max" ] || unknown 'the repository borrows from too many others'
  text "$1/info/alternates"
  IFS=$nl
  for o in $T; do
    case $o in '#'*) continue ;; '"'*) unknown "$1/info/alternates has a path in quotes" ;; /*) ;; *) o=$1/$o ;; esac
    follow "${1#"${root%/}"/}/info/alternates" "$o"
    objects "$R"
  done
}
# Follows the file of settings $1 to those that it includes.
settings() {
  [ -e "$1" ] || [ -L "$1" ] || return 0
  follow "${1#"${root%/}"/}" "$1"
  [ -f "$R" ] || unknown "$1 is not a file"
  count=$((count+1)); [ "$count" -le "$files_max" ] || unknown 'the config includes too many files'
  i=$(GIT_DIR=/dev/null git config --file "$1" --no-includes --path --null --get-regexp '^include(if\..*)?\.path$' |
    tr '\n\000' '\001\n'; printf .)
  GIT_DIR=/dev/null git config --file "$1" --no-includes --null --list >/dev/null || unknown "$1 cannot be read"
  i=${i%.}
  IFS=$nl
  for i in $i; do
    p=${i#*"$soh"}
    case $p in *"$soh"*|"$i") unknown "$1 includes a file with an unusual name" ;; /*) ;; *) p=${1%/*}/$p ;; esac
    follow "${i%%"$soh"*} in ${1#"${root%/}"/}" "$p"
    settings "$p"
  done
}
text_max=$1 files_max=$2
cr=$(printf '\r') soh=$(printf '\001')
command -v git >/dev/null 2>&1 || unknown 'git is not installed'
root=$(pwd -P && printf .) || unknown 'the root cannot be read'
root=${root%.}; root=${root%"$nl"}
[ -e .git ] || [ -L .git ] || unknown 'not a git repository: there is no .git in the root'
open "${root%/}" ''
repository=$G shared=$C
links "$G"; links "$C"; objects "$C/objects"
settings "$C/config"; settings "$G/config.worktree"
e=$(git rev-parse --absolute-git-dir 2>&1) || unknown "$e"
[ "$e" = "$repository" ] || unknown "not a git repository: git does not recognize $repository"
i=$(git -c core.quotePath=false ls-files --stage | sed -n 's/^160000 [^	]*	//p') || unknown 'the index cannot be read'
IFS=$nl
for p in $i; do
  case $p in '"'*) unknown 'a submodule has an unusual name' ;; esac
  [ -e "$p/.git" ] || [ -L "$p/.git" ] || continue
  follow "$p" "${root%/}/$p"
  open "$R" "$p/"
done
e=$(git --no-pager config --list 2>&1 >/dev/null) || unknown "$e"
git --no-pager config --list --show-scope --null
