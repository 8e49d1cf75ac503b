LC_ALL=C; export LC_ALL; unset CDPATH; IFS=; set +f
nl='
'
# Sets $R to the place of the absolute path $1 without links; names that do not exist count as they are.
real() {
  case $1 in /dev/stdin|/dev/stdout|/dev/stderr) R=$1; return ;; esac
  R= rest=$1 links=0
  while [ "$rest" ]; do
    c=${rest%%/*}
    case $rest in */*) rest=${rest#*/} ;; *) rest= ;; esac
    case $c in ''|.) continue ;; ..) R=${R%/*}; continue ;; esac
    if [ -L "$R/$c" ]; then
      links=$((links+1)); [ "$links" -le 40 ] || return 1
      case $R in /proc|/proc/*) return 1 ;; esac
      t=$(readlink "$R/$c" && printf .) || return 1
      t=${t%.}; t=${t%"$nl"}
      case $t in /*) R= ;; esac
      rest=$t/$rest
      continue
    fi
    [ -e "$R/$c" ] || [ -x "$R/" ] || ! [ -d "$R/" ] || return 1
    R=$R/$c
  done
  [ "$R" ] || R=/
}
