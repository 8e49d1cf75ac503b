# The target's side of a guard: keeps pre-images of what a change may break, and puts them back unless told in time that
# a fresh login works. Runs as root, or as the login user for files that are his own. Needs POSIX sh and Linux.
#
#   arm ID SECONDS OWNER CAPTURE HOOK CHECKS PATH...   keep pre-images, start the timer
#   check ID | confirm ID | fire ID [WHY] | status ID | list | probe
# The change itself runs as the login user, by run.sh.
#
# The one decision is a rename of `armed`, to `confirmed` or to `firing`: the loser's rename fails.
# D must be on the file system of /etc, so that a full disk can be rolled back by rename.
set -u; umask 077; nl='
'
export PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin" LC_ALL=C
# Files are read by the shell itself where that is possible: a rollback must not wait for a busy machine to start programs.
me=; while read -r k _ v _; do if [ "$k" = Uid: ]; then me=$v; fi; done </proc/self/status; me=${me:-$(id -u)}
if [ "$me" = 0 ]; then D=/var/lib/sysop-guard; else D=${HOME:-/nowhere}/.sysop-guard; fi
D=${SYSOP_GUARD_DIR:-$D}; verb=${1:-} id=${2:-} G=
case $verb in
list|probe) ;;
*) case $id in ''|*[!A-Za-z0-9-]*) exit 2 ;; esac; G=$D/$id ;;
esac

say() { printf 'G %s %s %s\n' "$id" "$1" "${2:-}"; }
up() { read -r u _ </proc/uptime && echo "${u%%.*}"; }
boot() { cat /proc/sys/kernel/random/boot_id; }
nap() { sleep "${1:-0.1}" 2>/dev/null || sleep 1; }
state() { for s in armed confirmed firing fired failed; do [ -f "$G/$s" ] && { echo "$s"; return; }; done; echo none; }
# Sets `born` to the start time of process $1, which tells it from a later one of the same number.
born() {
  born= bl=; [ -r "/proc/$1/stat" ] || return 1
  while IFS= read -r bx; do bl="$bl$bx "; done 2>/dev/null <"/proc/$1/stat"   # a name may have line breaks
  [ -n "$bl" ] || return 1; bl=${bl##*) }; set -f; set -- $bl; set +f; born=${20}
}
# Succeeds if the process that the file $1 names (`PID START`) is still that process.
alive() {
  if [ -L "$1" ]; then ar=$(readlink "$1"); aq=${ar%%:*} ar=${ar#*:}; else { read -r aq ar <"$1"; } 2>/dev/null || return; fi
  case $aq in ''|*[!0-9]*) return 1 ;; esac
  born "$aq" && [ "$born" = "$ar" ]
}
# Writes `PID START` of this shell to the file $1. On a full disk, a link holds them, which needs no block.
note() {
  born $$; umask 022; echo "$$ $born" >"$1"; [ -s "$1" ] || { rm -f "$1"; ln -s "$$:$born" "$1"; }
  umask 077
} 2>/dev/null
# `arm` finds out whether cp is that of GNU.
copy() { if [ -f "$G/gnu" ]; then cp -a -- "$1" "$2"; else cp -pPR -- "$1" "$2"; fi; }
there() { [ -e "$1" ] || [ -L "$1" ]; }

# Puts back pre-image $1 of the path $2, or its absence. What is there now is kept in `lost`.
restore() {
  n=$1 p=$2
  case $p in @*)
    p=${p#@}; [ -s "$G/pre/$n" ] || return 0
    read -r a o <"$G/pre/$n"; there "$p" || return 1
    [ "$(stat -c '%a %u:%g' "$p")" = "$a $o" ] && return                 # chown takes the setuid bit for a moment
    chown "$o" "$p" && chmod "$a" "$p"; return ;;
  esac
  t=$p.sysop-$id
  if ! there "$G/pre/$n"; then
    there "$p" || return 0
    copy "$p" "$G/lost/$n" 2>/dev/null; rm -rf -- "$p"; return
  fi
  if there "$t"; then rm -rf -- "$t"; fi
  if [ -L "$p" ] || { there "$p" && [ ! -d "$p" ]; }; then copy "$p" "$G/lost/$n" 2>/dev/null; fi
  # On a full disk the pre-image itself is moved.
  copy "$G/pre/$n" "$t" 2>/dev/null || { rm -rf -- "$t"; mv -f -- "$G/pre/$n" "$t" || return 1; }
  if [ -L "$p" ]; then rm -f -- "$p"
  elif [ -d "$p" ]; then
    if ! mv -- "$p" "$t.new" 2>/dev/null; then                          # a mount point: its content is replaced
      copy "$p" "$G/lost/$n" 2>/dev/null; rm -rf -- "$p"/* "$p"/.[!.]* "$p"/..?*
      cp -pPR -- "$t/." "$p/" && rm -rf -- "$t"; return
    fi
    mv -f -- "$t" "$p" || return 1
    mv -- "$t.new" "$G/lost/$n" 2>/dev/null || rm -rf -- "$t.new"; return
  fi
  mv -f -- "$t" "$p"
}
# Tries every step, and counts those that failed.
undo() {
  bad=0 n=0
  while IFS= read -r path; do
    n=$((n+1)); restore "$n" "$path" || { bad=$((bad+1)); echo "cannot restore $path"; }
  done <"$G/paths"
  if command -v restorecon >/dev/null; then grep -v '^@' "$G/paths" | tr '\n' '\0' | xargs -0 restorecon -RF 2>/dev/null; fi
  ( cd "$G/keep" && exec sh "$G/hook" ) 2>&1 </dev/null; h=$?
  [ $h = 0 ] || { bad=$((bad+1)); echo "the hook failed with $h"; }
  return "$bad"
}
# Prints the processes of the change whose leader is process $1: its group, its session, and everything below it.
members() {
  all=; for f in /proc/[0-9]*/stat; do
    { IFS= read -r l <"$f"; } 2>/dev/null || continue
    c=${l%% *}; set -f; set -- "$1" ${l##*) }; set +f
    case $2 in Z|X) ;; *) all="$all $c:$3:$4:$5" ;; esac
  done
  tree=" $1 "; more=1
  while [ -n "$more" ]; do
    more=; for f in $all; do
      c=${f%%:*}; case $tree in *" $c "*) continue ;; esac
      l=${f#*:}; case $tree in *" ${l%%:*} "*) tree="$tree$c "; more=1; continue ;; esac
      case :${l#*:}: in *":$1:"*) tree="$tree$c "; more=1 ;; esac
    done
  done
  for f in $all; do c=${f%%:*}; case $tree in *" $c "*) echo "$c" ;; esac; done
}
# Ends the change: the processes get a second to end.
stop_change() {
  read -r p b 2>/dev/null <"$G/user/group" || return 0
  case $p in ''|0|1|*[!0-9]*) return ;; esac
  born "$p" && [ "$born" != "$b" ] && return                            # another process by now
  if [ -n "$born" ]; then set -- $(ls -ldn "/proc/$p"); [ "$3" = "$(cat "$G/owner")" ] || return; fi
  i=0; while [ $i -lt 25 ]; do
    live=$(members "$p"); [ -n "$live" ] || return
    if [ $i = 0 ]; then kill -TERM $live; elif [ $i -ge 15 ]; then kill -KILL $live; fi
    i=$((i+1)); if [ $i -le 5 ]; then nap 0.02; else nap; fi
  done 2>/dev/null
}
unlock() { [ "$(readlink "$D/lock")" != "id:$id" ] || rm -f "$D/lock"; }
fire() {
  # A rollback that was killed is taken up again.
  if [ -f "$G/firing" ] && ! alive "$G/firer"; then mv "$G/firing" "$G/armed" 2>/dev/null; fi
  note "$G/next.$$"; mv "$G/armed" "$G/firing" 2>/dev/null || { rm -f "$G/next.$$"; return 3; }
  mv -f "$G/next.$$" "$G/firer"
  trap '' HUP INT TERM PIPE
  stop_change
  ( undo ) >"$G/log" 2>&1 </dev/null; r=$?
  { printf '%s, rc %s, ' "$1" "$r"; date -u +%FT%TZ; } >>"$G/log"
  if [ $r = 0 ]; then mv "$G/firing" "$G/fired"; else mv "$G/firing" "$G/failed"; fi
  unlock; return 0
}
# Tells syslog and the logged-in users of the rollback.
tell() {
  logger -t sysop-guard "$id rolled back ($1), rc $r" 2>/dev/null
  echo "sysop: change $id was not confirmed and was rolled back ($1)" | wall 2>/dev/null
}
# Succeeds if logind runs here. That of a container has another namespace.
logind() {
  for c in $(grep -ls -e '^systemd-logind' -e '^elogind' /proc/[0-9]*/comm); do
    c=$(readlink "${c%comm}ns/pid" 2>/dev/null); [ "${c:-?}" != "$(readlink /proc/self/ns/pid)" ] && [ -n "$c" ] || return 0
  done
  return 1
}
# Succeeds if a process started with setsid is known to outlive its ssh connection.
outlives() {
  [ -d /run/systemd/system ] || logind || return 0
  [ "$(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager \
    KillUserProcesses 2>/dev/null)" = "b false" ]
}
by_systemd() { [ "$me" = 0 ] && [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; }
timer() {
  if by_systemd; then
    for c in --collect ''; do
      systemd-run -q $c --unit="sysop-guard-$id" -p OOMScoreAdjust=-900 --setenv=SYSOP_GUARD_DIR="$D" \
        /bin/sh "$G/guard.sh" wait "$id" "$1" >/dev/null 2>&1 && { how=systemd; return; }
    done
  fi
  outlives || fail 'the host has no timer that outlives the connection'
  command -v setsid >/dev/null || fail 'setsid is missing'
  how=setsid
  SYSOP_GUARD_DIR="$D" setsid /bin/sh "$G/guard.sh" wait "$id" "$1" >/dev/null 2>&1 </dev/null &
}
# Runs the checks; $1 is the file for their results.
checks() {
  n=0; while IFS= read -r c; do
    n=$((n+1)); b=; command -v timeout >/dev/null && b='timeout 10'
    o=$($b sh -c "$c" 2>&1 </dev/null); echo "$? $(printf %s "$o" | tr -c ' -~' ' ' | cut -c1-300)"
  done <"$G/checks" >"$1"
}
take_lock() {
  ln -s "id:$id" "$D/lock" 2>/dev/null && return
  other=$(readlink "$D/lock"); other=${other#id:}
  case $other in ''|*[!A-Za-z0-9-]*) ;; *)
    G=$D/$other; s=$(state); G=$D/$id
    case $s in none|confirmed|fired|failed)                             # it was left behind
      if mv "$D/lock" "$D/lock.$id" 2>/dev/null; then
        [ "$(readlink "$D/lock.$id")" = "id:$other" ] || ln -s "$(readlink "$D/lock.$id")" "$D/lock" 2>/dev/null
        rm -f "$D/lock.$id"
      fi
      ln -s "id:$id" "$D/lock" 2>/dev/null && return ;;
    esac ;;
  esac
  say busy "$other"; exit 4
}
clean() {
  for g in $(find "$D" -mindepth 1 -maxdepth 1 -type d -mtime +7 2>/dev/null); do
    [ -f "$g/armed" ] || [ -f "$g/firing" ] || rm -rf -- "$g"
  done
}
arm() {
  secs=$1 owner=$2 capture=$3 hook=$4 checks=$5; shift 5
  case $secs in ''|*[!0-9]*) exit 2 ;; esac; case $owner in ''|*[!0-9]*) exit 2 ;; esac
  for p do case $p in *"$nl"*) say unarmed 'a path has a line break'; exit 1 ;; /*|@/*) ;; *) exit 2 ;; esac; done
  mkdir -p "$D" 2>/dev/null && chmod 755 "$D" || { say unarmed "cannot write $D"; exit 1; }
  clean; take_lock
  mkdir "$G" 2>/dev/null || { if [ "$(state)" = none ]; then unlock; fi; say busy used; exit 4; }
  fail() { say unarmed "$1"; cd /; rm -rf "$G"; unlock; exit 1; }
  trap 'fail interrupted' HUP INT TERM PIPE
  mkdir "$G/pre" "$G/keep" "$G/lost" "$G/user" && : >"$G/log" && : >"$G/paths" || fail 'the disk is full'
  chmod 711 "$G"; echo "$owner" >"$G/owner"
  [ "$owner" = "$me" ] || chown "$owner" "$G/user" || fail chown
  printf '%s\n' "$hook" >"$G/hook" && sh -n "$G/hook" || fail hook
  : >"$G/checks"; [ -z "$checks" ] || printf '%s\n' "$checks" >"$G/checks"
  case $(cp --version 2>/dev/null) in *GNU*) : >"$G/gnu" ;; esac
  n=0 size=0
  for p do
    n=$((n+1)); printf '%s\n' "$p" >>"$G/paths"
    case $p in @*) p=${p#@}; there "$p" || continue; stat -c '%a %u:%g' "$p" >"$G/pre/$n" || fail "$p"; continue ;; esac
    there "$p" || continue
    k=$(du -sk -- "$p" 2>/dev/null | cut -f1); size=$((size + ${k:-0})); [ "$size" -le 65536 ] || fail "$p is too large"
    copy "$p" "$G/pre/$n" || fail "cannot copy $p"
  done
  ( cd "$G/keep" && sh -c "$capture" ) >/dev/null 2>&1 </dev/null || fail 'cannot save the state before the change'
  checks "$G/before"
  printf '%s\n' "$S" >"$G/guard.sh" && boot >"$G/boot" || fail 'the disk is full'
  echo $(( $(up) + secs )) >"$G/armed" && chmod 644 "$G/armed" "$G/boot" || fail 'the disk is full'
  timer "$secs"
  i=0; until [ -s "$G/pid" ]; do i=$((i+1)); [ $i -gt 150 ] && { rm -f "$G/armed"; fail 'the timer did not start'; }; nap 0.02; done
  trap - HUP INT TERM PIPE
  read -r q _ <"$G/pid"; say armed "$secs $how $q $G"
}
# The timer. `sleep` counts CLOCK_MONOTONIC, so that a change of the clock does not matter.
timed() {
  trap '' HUP; cd /; note "$G/pid.new"; mv -f "$G/pid.new" "$G/pid"
  e=$1; while [ "$e" -gt 0 ]; do
    sleep 1; e=$((e-1)); [ -f "$G/armed" ] || exit 0
    # A login user who lost sudo asks in this way.
    [ -f "$G/user/fire" ] && { fire asked && tell asked; exit 0; }
  done
  fire 'not confirmed in time' && tell 'not confirmed in time'
}
status() {
  l=- a=dead b=same; s=$(state)
  if [ "$s" = armed ]; then l=$(( $(cat "$G/armed" 2>/dev/null || echo 0) - $(up) )); fi
  alive "$G/pid" && a=alive; [ "$(cat "$G/boot" 2>/dev/null)" = "$(boot)" ] || b=rebooted
  say "$s" "left=$l timer=$a boot=$b since=$(stat -c %Y "$G/$s" 2>/dev/null)"
}

case $verb in
arm) shift 2; arm "$@" ;;
wait) timed "$3" ;;
check)
  checks "$G/after"; exec 3<"$G/before"; w=
  while IFS= read -r c; do IFS= read -r b <&3 || break
    case $c in '0 '*) ;; *) case $b in '0 '*) w="$w${w:+; }${c#* }"; [ -n "${c#* }" ] || w="${w}failed with ${c%% *}" ;; esac ;; esac
  done <"$G/after"
  IFS= read -r b <&3 && w="${w:+$w; }a check has no result, perhaps as the disk is full"
  if [ -z "$w" ]; then say checked; else say bad "$w"; exit 1; fi ;;
confirm)
  if mv "$G/armed" "$G/confirmed" 2>/dev/null; then
    a=dead; alive "$G/pid" && a=alive; unlock; say confirmed "timer-$a"
  else say "$(state)" late; exit 3; fi ;;
fire)
  if fire "${3:-asked}"; then
    o=; while IFS= read -r l; do o="$o$l;"; done <"$G/log"; say "$(state)" "$o"
    tell "${3:-asked}" </dev/null >/dev/null 2>&1 &                     # nobody waits for syslog and terminals
  else say "$(state)" late; exit 3; fi ;;
status) [ -d "$G" ] || { say none unknown; exit 2; }; status ;;
list)
  for D in ${SYSOP_GUARD_DIR:-/var/lib/sysop-guard "${HOME:-/nowhere}/.sysop-guard"}; do
    for G in "$D"/*/; do G=${G%/}; id=${G##*/}; [ ! -d "$G/user" ] || status; done
  done ;;
probe)
  t=none; if by_systemd; then t=systemd; elif outlives && command -v setsid >/dev/null; then t=setsid; fi
  id=-; say probe "uid=$me timer=$t" ;;
*) exit 2 ;;
esac
