# undo.sh FOLDER|- before ID BYTES ENTRY... | after ID | plan ID | apply ID NEW BYTES | drop ID
#
# Keeps what a command is about to change, and puts it back. Reports lines that start with U and a tab. Entries:
#   c:PATH content · m:PATH modes and owners · i:DIR<tab>NAME content of DIR/NAME, or of DIR if that is no directory
#   w:PATH metadata, and content of /etc · ~:HOME metadata of a login's files · u:UNIT[:VERB] · U: all units · g: accounts · h:USER home · r:[USER] crontab
#   G:DIR the repository of DIR with its work tree, if it is small · s:KEY kernel parameter · S:FILE parameters of a file · f:nft|iptables · p: packages · a:WORDS words of apt-get · d:FILE .deb
#   x:PATH a directory of sysop, which is no part of the record
set -u; umask 077; export LC_ALL=C TZ=UTC0 PATH="$PATH:/usr/sbin:/sbin"; unset CDPATH
T='	' N='
'
D=$1 verb=$2 id=$3; shift 3
if [ "$D" = - ]; then
  if [ "$(id -u)" = 0 ]; then D=/var/lib/sysop-undo; else D=$HOME/.local/state/sysop/undo; fi; D=${SYSOP_UNDO_DIR:-$D}
fi
G=$D/$id
case $id in ''|*[!A-Za-z0-9]*) exit 2 ;; esac
KEEP_DAYS=7 KEEP_KB=65536 ENTRIES_MAX=20000 CHANGES_MAX=5000 SHOWN_MAX=100 HASH_MAX=33554432 REPOSITORY_MAX=5000 LIST_MAX=8
FMT="%f$T%u$T%g$T%s$T%h$T%i$T%y$T%z$T%n"
exec 3>&1
say() { printf 'U\t%s\t%s\t%s\n' "$1" "${2:-}" "${3:-}" >&3; }
has() { command -v "$1" >/dev/null 2>&1; }
booted() { [ -d /run/systemd/system ] && has systemctl; }
limited() { if has timeout; then timeout "$@"; else shift; "$@"; fi; }
each() { tr '\n' '\0' <"$1" | { shift; xargs -0r "$@"; }; }           # FILE COMMAND...: runs it with the lines as arguments

# --- directories of sysop, which writes there while a command runs: they are no part of any record
# Writes $G/own: their paths as given and without symbolic links, and $G/own.find: the same as patterns of find.
own() {
  { printf '%s\n' "$D" /var/lib/sysop-undo /var/lib/sysop-guard
    [ -z "${HOME:-}" ] || for o in .local/share/sysop .local/state/sysop .cache/sysop .sysop-guard; do printf '%s\n' "$HOME/$o"; done
    sed -n 's/^x://p' "$G/entries"; } | while IFS= read -r o; do
      case $o in /*[!/]*) ;; *) continue ;; esac
      printf '%s\n' "${o%/}"; r=$(real "${o%/}")
      # A link must not hide the changes of a directory that is not sysop's.
      if [ -L "${o%/}" ]; then case ${r##*/} in *sysop*) ;; *) continue ;; esac; fi
      printf '%s\n' "$r"
    done | awk '!s[$0]++' >"$G/own"
  sed 's/[][*?\\]/\\&/g' "$G/own" >"$G/own.find"
}
real() {                                                             # PATH: without symbolic links; its end may be missing
  q=$1 e=; while [ -n "$q" ] && [ ! -d "$q" ]; do e=/${q##*/}$e q=${q%/*}; done
  (cd -P "${q:-/}" 2>/dev/null && printf '%s\n' "${PWD%/}$e")
}
is_own() { while IFS= read -r o; do case $1/ in "$o"/*) return 0 ;; esac; done <"$G/own"; return 1; }
has_own() { while IFS= read -r o; do case $o in "${1%/}"/*) return 0 ;; esac; done <"$G/own"; return 1; }
search() {                                                           # RUN SECONDS PATH EXPRESSION...: runs `find` outside of these directories by RUN
  run=$1 most=$2 top=$3; shift 3
  while IFS= read -r o; do set -- -path "$o" -prune -o "$@"; done <"$G/own.find"
  "$run" "$most" find "$top" -xdev "$@"
}
copy_path() (                                                        # PATH COPY: like cp -a, but without these directories
  is_own "$1" && exit 0
  if [ -L "$1" ] || ! has_own "$1"; then cp -a -- "$1" "$2"; exit; fi
  mkdir -- "$2" || exit 1
  for f in "${1%/}"/* "${1%/}"/.[!.]* "${1%/}"/..?*; do
    [ -e "$f" ] || [ -L "$f" ] || continue
    copy_path "$f" "$2/${f##*/}" || exit 1
  done
  chown "$(stat -c %u:%g -- "$1")" -- "$2" 2>/dev/null
  chmod "$(stat -c %a -- "$1")" -- "$2" && touch -r "$1" -- "$2"
)

# --- metadata: one line per path, with the fields of FMT
LEFT=0                                                                # seconds that are left for all listings of files
begin() {                                                             # SECONDS: sets $t, the limit; 124 if no time is left
  t=$1; [ "$t" -le "$LEFT" ] || t=$LEFT
  [ "$t" -gt 0 ] || return 124
  t0=$(date +%s)
}
spent() { LEFT=$((LEFT - $(date +%s) + t0)); }
timed() {                                                             # SECONDS COMMAND...: 124 if the time is over
  begin "$1" || return 124
  shift; limited "$t" "$@"; set -- $?; spent; return "$1"
}
tree() { search timed 5 "$1" ! -name "*$N*" ! -name "*$T*" -exec stat -c "$FMT" {} + 2>/dev/null; }
# Leaves out the swap files of vim (`.NAME.swp`, `.swo`, `.swn`). Stops after ENTRIES_MAX entries. `find` itself is limited:
# the `timeout` of busybox ends its child only, and a `find` that goes on would keep the output of this script open.
watched() {
  begin 3 || return 124
  { search limited "$t" "$1" \( -name .git -o -name node_modules -o -name target -o -name .cache -o -name __pycache__ \) \
      -prune -o ! -name "*$N*" ! -name "*$T*" ! -name '.*.sw[n-p]' -print 2>/dev/null; echo $? >"$G/ended"; } | head -n $((ENTRIES_MAX+1)) >"$G/names"
  # Of too many entries, only the number counts.
  if [ "$(wc -l <"$G/names")" -gt $ENTRIES_MAX ]; then cat "$G/names"; else each "$G/names" stat -c "$FMT" -- 2>/dev/null; fi
  rm -f "$G/names"; spent; return "$(cat "$G/ended")"
}
one() { stat -c "$FMT" -- "$1" 2>/dev/null; }
# Writes $G/all.$1: the number of a root and the metadata of a path below it. A root that cannot be listed as a whole is in
# $G/cut: what is left out of one list would look created or removed.
list() {                                                             # was|now
  row=0; : >>"$G/cut"
  while IFS=$T read -r k p; do
    row=$((row+1)); is_cut "$row" && continue
    case $k in
    c|m|g) if [ "$1" = was ] && [ -f "$G/tree.$row" ]; then cat "$G/tree.$row"; e=0; else tree "$p"; e=$?; fi; one "${p%/*}/." | sed 's:/\.$::' ;;
    w) watched "$p"; e=$? ;;
    h) find "$p"/.[!.]* -maxdepth 0 ! -type d ! -name "*$N*" ! -name "*$T*" -exec stat -c "$FMT" {} + 2>/dev/null; tree "$p/.ssh"; e=$? ;;
    esac >"$G/part"
    if is_timeout $e; then say note "$p takes too long to list: its changes are not tracked"
    elif [ "$k" = w ] && [ "$(wc -l <"$G/part")" -gt $ENTRIES_MAX ]; then say note "$p has more than $ENTRIES_MAX entries: its changes are not tracked"
    else sed "s/^/$row$T/" "$G/part"; continue; fi
    echo "$row" >>"$G/cut"
  done <"$G/roots" >"$G/all.$1"; rm -f "$G/part" "$G/ended" "$G"/tree.*
}
# Writes $G/list.$1: the paths of $G/all.$1 that no cut root contains, each once.
select_list() {                                                      # was|now
  awk -F"$T" -v OFS="$T" 'f==0 {cut[$1]; next} ($1 in cut) || NF!=10 || $10=="" || seen[$10]++ {next} {sub(/^[0-9]*\t/,""); print}' \
    f=0 "$G/cut" f=1 "$G/all.$1" >"$G/list.$1"
}
lists() { LEFT=$LIST_MAX; list now; select_list was; select_list now; } # the second listing may cut roots of the first
is_cut() { grep -qx "$1" "$G/cut"; }
is_timeout() { case $1 in 124|137|143) ;; *) return 1 ;; esac; }
bytes() { awk -F"$T" '$1 ~ /^8/ {s+=$4} END {printf "%d", s}'; }

# --- state of other things, one file each below $1
state() {
  s=$1; mkdir -p "$s"
  if [ -s "$G/units" ] && booted; then
    { if grep -qx : "$G/units"; then systemctl list-units --type=service,socket,timer,path --all --plain --no-legend 2>/dev/null | awk '{print $1}'; fi
      sed 's/:.*//' "$G/units"; } | awk 'NF && !s[$0]++' >"$s/names"
    each "$s/names" systemctl show -p Id -p ActiveState -p UnitFileState -p InvocationID -- 2>/dev/null |
      awk -F= -v OFS="$T" 'function out() {if (v["Id"]!="") print v["Id"],v["ActiveState"],v["UnitFileState"],v["InvocationID"]; split("",v)}
        NF==0 {out(); next} {k=$1; sub(/^[^=]*=/,""); v[k]=$0} END {out()}' | sort -u >"$s/units"
  fi
  if [ -f "$G/packages" ] && has dpkg-query; then
    dpkg-query -W -f '${binary:Package}\t${Version}\t${db:Status-Status}\n' 2>/dev/null | sort >"$s/packages"
    has apt-mark && apt-mark showauto 2>/dev/null | sort >"$s/marks"
  fi
  while IFS= read -r u; do
    if [ -n "$u" ]; then crontab -l -u "$u"; else crontab -l; fi >"$s/cron.$u" 2>/dev/null || rm -f "$s/cron.$u"
  done <"$G/crons"
  while IFS= read -r k; do
    [ -r "/proc/sys/$k" ] && printf '%s\t%s\n' "$k" "$(cat "/proc/sys/$k" 2>/dev/null)"
  done <"$G/keys" >"$s/keys"
  while IFS= read -r f; do
    case $f in
    nft) nft_state; grep -qE "^$T$T(.* )?(xt|#) " "$s/nft" && iptables_state ;;
    iptables) iptables_state ;;
    esac
  done <"$G/firewalls"
  return 0
}
# Rules of firewalld are kept as its own runtime rules, because it would not notice that its table changed.
nft_state() {
  nft -s list ruleset >"$s/nft" 2>/dev/null
  has firewall-cmd && firewall-cmd -q --state 2>/dev/null || return 0
  firewall-cmd --list-all-zones >"$s/firewalld" 2>/dev/null || return 0
  awk '/^table [a-z0-9]+ firewalld \{/ {f=1} !f {print} /^}/ {f=0}' "$s/nft" >"$s/nft.new" && mv "$s/nft.new" "$s/nft"
}
iptables_state() {
  for t in iptables ip6tables; do rules $t >"$s/$t"; done; has ipset || return 0
  ipset save 2>/dev/null | sort -k1,1r -k2 >"$s/sets"; plain_sets "$s/sets" >"$s/ipset"
}
# Prints sets without what changes by itself: counters, and the time that is left of a member.
plain_sets() { sed -e 's/ packets [0-9]* bytes [0-9]*//' -e '/^add/s/ timeout [1-9][0-9]*//' "$1"; }
rules() { "$1-save" 2>/dev/null | sed -e '/^#/d' -e 's/\[[0-9]*:[0-9]*\]/[0:0]/'; }

# --- before
root() {                                                             # KIND PATH: the path, or its first ancestor that is missing
  case $2 in *"$N"*|*"$T"*) say note "a name with a line break or a tab is not saved"; return ;; /*) ;; *) return ;; esac
  k=$1 p=${2%/}; [ -n "$p" ] || p=/
  if [ ! -e "$p" ] && [ ! -L "$p" ]; then
    while q=${p%/*}; [ -n "$q" ] && [ ! -e "$q" ] && [ ! -L "$q" ]; do p=$q; done
  fi
  if is_own "$p"; then
    case $k in [cm]) say note "$p belongs to sysop and is not saved" ;; esac
    return
  fi
  printf '%s\t%s\n' "$k" "$p" >>"$G/roots"
}
keys_of() { sed -n 's:^[[:space:]]*-*\([A-Za-z0-9_./-][A-Za-z0-9_./-]*\)[[:space:]]*=.*:\1:p' "$1" 2>/dev/null; }
key() {                                                              # net.ipv4.x → net/ipv4/x
  case $1 in */*) printf '%s\n' "$1" ;; *) printf '%s\n' "$1" | tr . / ;; esac | grep -v '\.\./' >>"$G/keys"
}
entries() {
  while IFS= read -r e; do
    v=${e#?:}
    case $e in
    c:*) root c "$v" ;;
    m:*) root m "$v" ;;
    i:*) if [ -d "${v%"$T"*}" ]; then root c "${v%"$T"*}/${v##*"$T"}"; else root c "${v%"$T"*}"; fi ;;
    w:*) [ -d "$v" ] && root w "$v" ;;
    \~:*) [ -d "$v" ] && root h "$v" ;;
    u:*) printf '%s\n' "$v" >>"$G/units"; root c /etc/systemd/system ;;
    U:) echo : >>"$G/units" ;;
    g:) : >"$G/accounts"; for f in passwd shadow group gshadow subuid subgid; do root c "/etc/$f"; root c "/etc/$f-"; done ;;
    h:*) h=$(getent passwd "$v" | cut -d: -f6); [ -n "$h" ] || h=/home/$v; case $h in /|/root|/usr/*|/var|/bin|/dev|/proc|/nonexistent) ;; *) root c "$h" ;; esac
      root c "/var/mail/$v"; root c "/var/spool/cron/crontabs/$v" ;;
    G:*) repository "$v" ;;
    r:*) printf '%s\n' "$v" >>"$G/crons" ;;
    s:*) key "$v" ;;
    S:*) keys_of "$v" | while IFS= read -r k; do key "$k"; done ;;
    f:*) printf '%s\n' "$v" >>"$G/firewalls" ;;
    p:) : >"$G/packages" ;;
    a:*) : >"$G/packages"; printf '%s\n' "$v" >>"$G/apt" ;;
    d:*) : >"$G/packages"; package "$v" ;;
    esac
  done <"$G/entries"
}
repository() {                                                       # no git runs, because a repository may name programs
  q=${1%/}; while [ -n "$q" ] && [ ! -d "$q/.git" ]; do q=${q%/*}; done; [ -n "$q" ] || return
  { search limited 2 "$q" -print 2>/dev/null; echo $? >"$G/end"; } | head -n $((REPOSITORY_MAX+1)) >"$G/part"
  e=$(cat "$G/end") n=$(wc -l <"$G/part"); rm -f "$G/end"
  if is_timeout "$e" || [ "$n" -gt $REPOSITORY_MAX ]; then return; fi
  tree "$q" >"$G/part"; e=$?
  is_timeout $e || [ "$(bytes <"$G/part")" -gt "$BYTES" ] || root g "$q"
}
package() {                                                          # NAME or FILE.deb: the installed package is fetched, the file is kept
  n=$1
  if [ -f "$1" ]; then
    n=$(dpkg-deb -f "$1" Package 2>/dev/null) || return
    mkdir -p "$G/debs"; cp -- "$1" "$G/debs/$(deb_name "$n" "$(dpkg-deb -f "$1" Version)" "$(dpkg-deb -f "$1" Architecture)")" 2>/dev/null
  fi
  printf '%s\n' "$n" >>"$G/fetch"
}
deb_name() { printf '%s_%s_%s.deb' "${1%%:*}" "$(printf %s "$2" | sed 's/:/%3a/g')" "$3"; }
keep() {                                                             # BYTES: copies the content below the roots, within the limit
  n=0; : >"$G/kept"; copy "$1" c w
  copy "$1" g                                                        # repositories are often as large as the limit: they have their own
}
copy() {                                                             # BYTES KIND...
  left=$1 row=0; shift
  while IFS=$T read -r k p; do
    row=$((row+1)); is_cut "$row" && continue
    case " $* " in *" $k "*) ;; *) continue ;; esac
    [ $k != w ] || [ "$p" = /etc ] || continue
    [ -e "$p" ] || [ -L "$p" ] || continue
    covered "$p" && continue
    tree "$p" >"$G/part"
    if is_timeout $?; then
      if [ $k != w ]; then say note "$p takes too long to read: its content is not saved, and its changes are not tracked"; echo "$row" >>"$G/cut"; fi
      continue
    fi
    b=$(bytes <"$G/part"); [ $k = w ] || mv "$G/part" "$G/tree.$row"  # is not listed again
    if [ "$b" -gt "$left" ]; then [ $k != w ] && say note "$p is $(( (b+1048575)/1048576 )) MB: its content is not saved"; continue; fi
    n=$((n+1))
    if copy_path "$p" "$G/pre/$n" 2>/dev/null; then left=$((left-b)); printf '%s\t%s\n' "$n" "$p" >>"$G/kept"
    else rm -rf -- "$G/pre/$n"; [ $k != w ] && say note "$p cannot be read: its content is not saved"; fi
  done <"$G/roots"; rm -f "$G/part"
}
covered() { awk -F"$T" -v p="$1" '{r=$2; if (r=="/") r=""} p==$2 || index(p, r "/")==1 {f=1} END {exit !f}' "$G/kept"; }
fetch() {                                                            # saves the packages that are installed now: NAME lines
  mkdir -p "$G/debs"; awk 'NF && !s[$0]++' "$G/fetch" >"$G/fetch.new"
  while IFS= read -r n; do
    v=$(dpkg-query -W -f '${Version}' "$n" 2>/dev/null); [ -n "$v" ] || continue
    f=$(deb_name "$n" "$v" "$(dpkg-query -W -f '${Architecture}' "$n" 2>/dev/null)")
    [ -f "$G/debs/$f" ] && continue
    if [ -f "/var/cache/apt/archives/$f" ]; then cp "/var/cache/apt/archives/$f" "$G/debs/$f" && continue; fi
    [ $((SECONDS_LEFT)) -gt 0 ] && has apt-get || continue
    t=$(date +%s); ( cd "$G/debs" && limited "$SECONDS_LEFT" apt-get -q download "$n=$v" >/dev/null 2>&1 )
    SECONDS_LEFT=$((SECONDS_LEFT - $(date +%s) + t))
  done <"$G/fetch.new"
}
SECONDS_LEFT=20
tidy() {                                                             # removes old records
  find "$D" -mindepth 1 -maxdepth 1 -type d -mtime +$KEEP_DAYS -exec rm -rf {} + 2>/dev/null
  for f in "$D"/*.kb; do [ -d "${f%.kb}" ] || rm -f -- "$f"; done
  # A complete record is measured once, because it may have thousands of files.
  n=0; for o in "$D"/*/; do o=${o%/}
    if [ "$o" = "$G" ]; then continue; elif [ -s "$o.kb" ]; then read -r k <"$o.kb"
    else k=$(du -sk "$o" 2>/dev/null | cut -f1); [ ! -f "$o/complete" ] || printf '%s\n' "$k" >"$o.kb"; fi
    n=$((n+${k:-0}))
  done
  while [ $n -gt $KEEP_KB ]; do
    o=$(find "$D" -mindepth 1 -maxdepth 1 -type d ! -name "$id" -exec stat -c "%Y$T%n" {} + | sort -n | head -n 1 | cut -f2)
    [ -n "$o" ] || break; k=$(du -sk "$o" 2>/dev/null | cut -f1); n=$((n-${k:-0})); rm -rf -- "$o" "$o.kb"
  done
}
before() {                                                           # BYTES; $G/entries is written
  cd / || return 1; mkdir -p "$G/pre"
  for f in roots cut units crons keys firewalls apt fetch; do : >>"$G/$f"; done
  own; LEFT=$LIST_MAX BYTES=$1; entries
  awk '!s[$0]++' "$G/roots" >"$G/roots.new" && mv "$G/roots.new" "$G/roots"
  # An undo does not try again what took too long before.
  [ ! -f "$G/skip" ] || awk 'f==0 {s[$0]; next} $0 in s {print FNR}' f=0 "$G/skip" f=1 "$G/roots" >>"$G/cut"
  if [ -s "$G/apt" ] && has apt-get; then
    while IFS= read -r w; do
      # shellcheck disable=SC2086 # words are checked by the controller
      limited 10 apt-get -s -o Debug::NoLocking=1 -o Dir::Log::Planner=/dev/null $w 2>/dev/null
    done <"$G/apt" | sed -n -e 's/^Inst \([^ ]*\) \[.*/\1/p' -e 's/^Remv \([^ ]*\) .*/\1/p' -e 's/^Purg \([^ ]*\) .*/\1/p' >>"$G/fetch"
  fi
  [ -s "$G/fetch" ] && fetch
  keep "$1"; state "$G/was"; list was
}

# --- after
compare() {                                                          # prints HOW MODE UID GID MTIME PRE PATH for each path that changed
  candidates >"$G/rows"
  if [ "$(wc -l <"$G/rows")" -gt $CHANGES_MAX ]; then                 # too many to look at each
    awk -F"$T" -v OFS="$T" '$1=="same?" {next} {$1=($1=="mode?") ? "mode" : ($1 ~ /\?$/) ? "edited" : $1; NF=7; print}' "$G/rows"
  else resolve <"$G/rows"; fi
  rm -f "$G/rows"
}
candidates() {                                                       # prints the same and the present MTIME; HOW ends with ? if the content decides
  awk -F"$T" -v OFS="$T" -v g="$G/pre/" '
    function pre(p, q, r) {q=p; r=""; for (;;) {if (q in k) return g k[q] r; i=match(q, /\/[^\/]*$/); if (!i) return ""; r=substr(q,i) r; q=substr(q,1,i-1)}}
    function type(m) {return substr(m,1,length(m)-3)}
    function row(how, p, f) {split(f, v, FS); x=pre(p); print how,v[1],v[2],v[3],v[7],(x==""?"-":x),p,(p in a ? y[7] : "-")}
    f==0 {k[$2]=$1; next} f==1 {b[$9]=$0; next} {a[$9]=$0}
    END {
      for (p in b) if (!(p in a)) row("removed", p, b[p])
      for (p in a) {
        split(a[p], y, FS)
        if (!(p in b)) {row("created", p, a[p]); continue}
        if (a[p]==b[p]) continue
        split(b[p], x0, FS); m = y[1]!=x0[1] || y[2]!=x0[2] || y[3]!=x0[3]
        if (type(y[1])!=type(x0[1])) {row("edited", p, b[p]); continue}
        if (type(y[1])=="4") {if (m) row("mode", p, b[p]); continue}
        if (type(y[1])=="8" && y[4]!=x0[4]) row("edited", p, b[p])
        else if (y[4]!=x0[4] || y[6]!=x0[6] || y[7]!=x0[7]) row(m ? "both?" : "edited?", p, b[p])
        else if (y[8]!=x0[8]) row(m ? "mode?" : "same?", p, b[p])
      }
    }' f=0 "$G/kept" f=1 "$G/list.was" f=2 "$G/list.now" | sort -t "$T" -k7,7
}
resolve() {
  while IFS=$T read -r how m u g t x p now; do
    case $how in
    *\?)
      if [ "$x" != - ] && same "$x" "$p"; then
        case $how in mode\?|both\?) how=mode; [ "$now" = "$t" ] || how=edited ;; same\?) continue ;;
        *) [ "$now" = "$t" ] && continue; how=touched ;; esac
      else
        case $how in mode\?) [ "$x" = - ] && how=mode || how=edited ;; same\?) [ "$x" = - ] && continue; how=edited ;; *) how=edited ;; esac
      fi ;;
    esac
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$how" "$m" "$u" "$g" "$t" "$x" "$p"
  done
}
same() {
  if [ -L "$1" ] || [ -L "$2" ]; then [ -L "$1" ] && [ -L "$2" ] && [ "$(readlink -- "$1"; echo .)" = "$(readlink -- "$2"; echo .)" ]
  else cmp -s -- "$1" "$2"; fi
}
stamps() {                                                           # prints PATH STAMP for the paths of $G/changes as they are now
  cut -f7 "$G/changes" >"$G/paths"
  each "$G/paths" stat -c "%f$T%u$T%g$T%s$T%Y$T%n" -- 2>/dev/null >"$G/stats"
  awk -F"$T" 'f==0 {how[$7]=$1; next} $1 ~ /^8/ && how[$6]!="mode" && $4<='$HASH_MAX' {print $6}' f=0 "$G/changes" f=1 "$G/stats" >"$G/tohash"
  each "$G/tohash" sha256sum -- 2>/dev/null >"$G/sums"
  awk -F"$T" 'f==0 {how[$7]=$1; next} $1 ~ /^a/ {print $6}' f=0 "$G/changes" f=1 "$G/stats" | while IFS= read -r p; do
    printf '%s\t%s\n' "$p" "$(readlink -- "$p")"; done >"$G/links"
  awk -F"$T" -v OFS="$T" '
    f==0 {how[$7]=$1; next}
    f==1 {h=$0; e=sub(/^\\/,"",h); p=substr(h,67); if (e) gsub(/\\\\/,"\\",p); sum[p]=substr(h,1,64); next}
    f==2 {link[$1]=$2; next}
    {t=substr($1,1,length($1)-3); s=$1 "," $2 "," $3
     if (t=="8" && how[$6]!="mode") s=s "," $4 "," (($6 in sum) ? sum[$6] : $5); if (t=="a") s=s "," link[$6]; print $6,s}' \
    f=0 "$G/changes" f=1 "$G/sums" f=2 "$G/links" f=3 "$G/stats" | sort
  rm -f "$G/paths" "$G/stats" "$G/tohash" "$G/sums" "$G/links"
}
users() {                                                            # HOW NAME of users and groups that differ from the kept files
  e=; while IFS=$T read -r x f; do case $f in /etc/passwd|/etc/group|/etc/shadow) e=1 ;; esac; done <"$G/kept"
  [ -n "$e" ] || return 0
  for f in passwd group; do
    x=$(awk -F"$T" -v p="/etc/$f" '$2==p {print $1}' "$G/kept"); [ -n "$x" ] || continue
    awk -F: -v w="$( [ $f = group ] && echo 'group ')" 'f==0 {b[$1]=$0; next} {a[$1]=$0; if (!($1 in b)) print "created", w $1; else if (b[$1]!=$0) print "changed", w $1}
      END {for (n in b) if (!(n in a)) print "removed", w n}' f=0 "$G/pre/$x" f=1 "/etc/$f" 2>/dev/null
  done
  x=$(awk -F"$T" '$2=="/etc/shadow" {print $1}' "$G/kept"); [ -n "$x" ] || return 0
  awk -F: 'f==0 {b[$1]=$0; next} ($1 in b) && b[$1]!=$0 {print "changed", "password of " $1}' f=0 "$G/pre/$x" f=1 /etc/shadow 2>/dev/null
}
differ() {                                                           # unit changes: NAME BEFORE AFTER HOW
  [ -f "$1/units" ] && [ -f "$2/units" ] || return 0
  awk -F"$T" -v OFS="$T" 'f==0 {a[$1]=$2; e[$1]=$3; i[$1]=$4; next} f==1 {split($0, w, ":"); verb[w[1]]=w[2]; verb[w[1] ".service"]=w[2]; next}
    { if (!($1 in a)) {a[$1]="inactive"; e[$1]=""; i[$1]=""}
      if (e[$1]!=$3) print $1,a[$1],$2,($3=="" ? "removed" : $3)
      if (a[$1]!=$2) print $1,a[$1],$2,($2=="active" ? "started" : $2=="inactive" ? "stopped" : $2)
      else if (i[$1]!=$4 && $2=="active") print $1,a[$1],$2,"restarted"
      else if (verb[$1]=="reload" && $2=="active") print $1,a[$1],$2,"reloaded" }' f=0 "$1/units" f=1 "$G/units" f=2 "$2/units"
}
# The state of a package: its version, with a remark if it is not set up yet.
VERSION='function state() {return $3=="installed" || $3 ~ /^(half-configured|triggers-)/ ? $2 : $3=="unpacked" ? $2 " (unpacked)" : ""}'
packages() {                                                         # NAME OLD NEW; - for not installed
  [ -f "$1/packages" ] && [ -f "$2/packages" ] || return 0
  awk -F"$T" -v OFS="$T" "$VERSION"' state()=="" {next} f==0 {b[$1]=state(); next} {a[$1]=state()} END {
    for (n in a) if (!(n in b)) print n,"-",a[n]; else if (a[n]!=b[n]) print n,b[n],a[n]
    for (n in b) if (!(n in a)) print n,b[n],"-" }' f=0 "$1/packages" f=1 "$2/packages" | sort
}
debs() { ls "$G/debs" 2>/dev/null | awk -v n="${1%%:*}" -v v="$(printf %s "${2%% (*}" | sed 's/:/%3a/g')" 'index($0, n "_" v "_")==1 {print; exit}'; }
blank() {                                                            # prints the new and edited files without content: empty, or blanks only
  awk -F"$T" -v most=$SHOWN_MAX '($1=="created" || $1=="edited") && substr($2,1,length($2)-3)=="8" && ++n<=most {print $7}' "$G/changes" >"$G/paths"
  [ -s "$G/paths" ] || return 0
  each "$G/paths" stat -c "%f$T%s$T%n" -- 2>/dev/null | awk -F"$T" '$1 ~ /^8/ && $2<=64 {print $3}' >"$G/stats"
  LC_ALL=C each "$G/stats" grep -L '[^[:space:]]' -- 2>/dev/null
  rm -f "$G/paths" "$G/stats"
}
report() {                                                           # says what changed, and how far it can be undone
  blank >"$G/blank"
  awk -F"$T" -v OFS="$T" -v acc="$( [ -f "$G/accounts" ] && echo 1 )" -v most=$SHOWN_MAX '
    f==0 {blank[$0]; next}
    acc && $7 ~ /^\/etc\/(passwd|shadow|group|gshadow|subuid|subgid)-?$/ {next}
    $1=="removed" || $1=="created" {q=$7; sub(/\/[^\/]*$/,"",q); if (done[q]==$1) {done[$7]=$1; next} done[$7]=$1}
    {w=($1=="mode") ? "mode or owner" : !($7 in blank) ? $1 : $1=="created" ? "created empty" : "emptied"; if (++n<=most) print "U","file",w,$7 (substr($2,1,length($2)-3)=="4" && ($1=="removed" || $1=="created") ? "/" : "")}
    END {if (n>most) print "U","more",n-most,""}' f=0 "$G/blank" f=1 "$G/changes"
  users | while read -r how name; do say user "$how" "$name"; done
  differ "$G/was" "$G/now" | while IFS=$T read -r n a b how; do say unit "$how" "${n%.service}"; done
  packages "$G/was" "$G/now" | while IFS=$T read -r n a b; do
    case $a$T$b in "-$T"*) say package "installed $b" "$n" ;; *"$T-") say package "removed $a" "$n" ;; *) say package "$a→$b" "$n" ;; esac; done
  for f in "$G"/was/cron.* "$G"/now/cron.*; do [ -f "$f" ] && echo "${f##*/cron.}"; done | sort -u | while IFS= read -r u; do
    cmp -s "$G/was/cron.$u" "$G/now/cron.$u" || say cron "$([ -f "$G/now/cron.$u" ] && { [ -f "$G/was/cron.$u" ] && echo edited || echo created; } || echo removed)" "${u:-$(id -un)}"; done
  for f in nft firewalld iptables ip6tables ipset; do [ -f "$G/now/$f" ] && ! cmp -s "$G/was/$f" "$G/now/$f" && say firewall changed "$f"; done
  [ ! -s "$G/now/keys" ] || awk -F"$T" 'f==0 {b[$1]=$0; next} b[$1]!=$0 {x=b[$1]; sub(/^[^\t]*\t/,"",x); y=$0; sub(/^[^\t]*\t/,"",y); k=$1; gsub("/",".",k); gsub("\t"," ",x); gsub("\t"," ",y); print "U\tsysctl\t" x "→" y "\t" k}' \
    f=0 "$G/was/keys" f=1 "$G/now/keys"
  can=0 cannot=0 part=0
  set -- $(awk -F"$T" '$1=="removed" || $1=="edited" || $1=="touched" {if ($6=="-" && !($1=="removed" && substr($2,1,length($2)-3)=="4")) {c++; next}} {k++} END {print k+0, c+0}' "$G/changes")
  can=$1 cannot=$2; [ ! -s "$G/cut" ] || cannot=$((cannot+1))
  differ "$G/was" "$G/now" >"$G/diff.units"; packages "$G/was" "$G/now" >"$G/diff.packages"
  [ -s "$G/diff.units" ] && grep -qE "$T(started|stopped|restarted|reloaded|failed)\$" "$G/diff.units" && part=1
  # A unit that only restarted is as before, but for the memory of its processes.
  if [ -s "$G/diff.units" ] && awk -F"$T" '$4!="restarted" && $4!="reloaded" {f=1} END {exit !f}' "$G/diff.units"; then can=$((can+1)); elif [ "$part" = 1 ]; then cannot=$((cannot+1)); fi
  while IFS=$T read -r n a b; do part=1; if [ "$a" = - ] || [ -n "$(debs "$n" "$a")" ]; then can=$((can+1)); else cannot=$((cannot+1)); fi; done <"$G/diff.packages"
  for f in "$G"/was/* "$G"/now/*; do case ${f##*/} in cron.*|nft|firewalld|iptables|ip6tables|ipset|keys) cmp -s "$G/was/${f##*/}" "$G/now/${f##*/}" || can=$((can+1)) ;; esac; done
  if [ $((can+cannot)) = 0 ]; then say undo nothing; elif [ "$can" = 0 ]; then say undo none "content was not saved"
  elif [ "$cannot" != 0 ] || [ "$part" = 1 ]; then say undo partly; else say undo exact; fi
}
after() {
  cd / || return 1; lists; state "$G/now"; compare >"$G/changes"
  c=$(wc -l <"$G/changes")
  if [ "$c" -gt $CHANGES_MAX ]; then say note "$((c)) paths changed: too many to undo"; : >"$G/unusable"; fi
  stamps >"$G/left"; report
  rm -f "$G/list.was" "$G/list.now" "$G/all.now"; : >"$G/complete"
}

# --- plan and apply
check() {                                                            # says what is no longer as the command left it
  cd / || return 1
  [ -f "$G/complete" ] || { say changed "" "$GONE"; return 1; }
  [ -f "$G/unusable" ] && { say changed "" "this call changed too many files"; return 1; }
  stamps >"$G/cur.left"; state "$G/cur"; : >"$G/drift"
  awk -F"$T" 'f==0 {b[$1]=$2; next} f==1 {c[$1]=$2; next} {p=$7; if ((p in b) == (p in c) && b[p]==c[p]) next
    if (!(p in c)) w="was removed"; else if (!(p in b)) w="exists again"; else {split(b[p],x,","); split(c[p],y,","); w=(x[1]!=y[1] || x[2]!=y[2] || x[3]!=y[3]) ? "has another mode or owner" : "was edited"}
    print p " " w}' f=0 "$G/left" f=1 "$G/cur.left" f=2 "$G/changes" >>"$G/drift"
  awk -F"$T" '$1=="created" && substr($2,1,length($2)-3)=="4" {q=$7; sub(/\/[^\/]*$/,"",q); if (!(q in d)) print $7; d[$7]}' "$G/changes" |
    while IFS= read -r p; do find "$p" -xdev 2>/dev/null; done | awk -F"$T" 'f==0 {k[$7]; next} !($0 in k) {print $0 " is new"}' f=0 "$G/changes" f=1 - >>"$G/drift"
  while IFS=$T read -r n a b how; do
    x=$(awk -F"$T" -v n="$n" '$1==n {print $2}' "$G/cur/units" 2>/dev/null); [ "$x" = "$b" ] || echo "unit ${n%.service} is ${x:-gone}, but was $b after the step"
  done <"$G/diff.units" >>"$G/drift"
  while IFS=$T read -r n a b; do
    x=$(awk -F"$T" -v n="$n" "$VERSION"' $1==n {print state()}' "$G/cur/packages" 2>/dev/null); [ "${x:--}" = "$b" ] || echo "package $n is ${x:-not installed}, but was $b after the step"
  done <"$G/diff.packages" >>"$G/drift"
  for f in "$G"/was/* "$G"/now/*; do
    n=${f##*/}
    case $n in
    cron.*|nft|firewalld|iptables|ip6tables|ipset) cmp -s "$G/was/$n" "$G/now/$n" || cmp -s "$G/now/$n" "$G/cur/$n" || { [ ! -f "$G/now/$n" ] && [ ! -f "$G/cur/$n" ]; } ||
      case $n in cron.*) echo "the crontab of ${n#cron.} was edited" ;; *) echo "the rules of $n were changed" ;; esac ;;
    esac
  done | sort -u >>"$G/drift"
  awk -F"$T" 'f==0 {b[$1]=$0; next} f==1 {a[$1]=$0; next} b[$1]!=a[$1] && a[$1]!=$0 {print $1 " was changed again"}' f=0 "$G/was/keys" f=1 "$G/now/keys" f=2 "$G/cur/keys" >>"$G/drift"
  rm -rf "$G/cur.left"
  [ -s "$G/drift" ] || return 0
  head -n 5 "$G/drift" | while IFS= read -r l; do say changed "" "$l"; done
  return 1
}
lost() { awk -F"$T" '($1=="removed" || $1=="edited" || $1=="touched") && $6=="-" && substr($2,1,length($2)-3)!="4" {print $7}' "$G/changes"; }
plan() {                                                             # says the steps in the order of apply
  awk -F"$T" -v most=$SHOWN_MAX '
    function name() {return $7 (substr($2,1,length($2)-3)=="4" ? "/" : "")}
    $1=="removed" || $1=="created" {q=$7; sub(/\/[^\/]*$/,"",q); if (done[q]==$1) {done[$7]=$1; next} done[$7]=$1}
    ($1=="removed" || $1=="edited" || $1=="touched") && $6=="-" && substr($2,1,length($2)-3)!="4" {next}
    {w=$1=="created" ? "remove" : $1=="mode" ? "restore mode and owner of" : $1=="touched" ? "restore the time of" : "restore"; if (++n<=most) print "U\tstep\t\t" w " " name()}
    END {if (n>most) print "U\tstep\t\tand " n-most " more files"}' "$G/changes"
  lost | head -n 5 | while IFS= read -r p; do say caveat "" "$p: its content was not saved and cannot be restored"; done
  reloads && say step "" "systemctl daemon-reload"
  while IFS=$T read -r n a b; do
    case $a in
    -) if [ "$(had "$n")" = config-files ]; then say step "" "remove package $n; its configuration stays"; else
        say step "" "purge package $n; its data outside of /etc is deleted, too"; fi ;;
    *) if [ -n "$(debs "$n" "$a")" ]; then say step "" "install package $n $a from the saved copy"; else say step "" "install package $n $a"; say caveat "" "$n $a was not saved; the mirror may no longer have it"; fi ;;
    esac
  done <"$G/diff.packages"
  for f in "$G"/was/* "$G"/now/*; do n=${f##*/}
    case $n in cron.*|nft|firewalld|iptables|ip6tables|ipset) cmp -s "$G/was/$n" "$G/now/$n" || case $n in cron.*) echo "restore the crontab of ${n#cron.}" ;; *) echo "reload the previous rules of $n" ;; esac ;; esac
  done | sort -u | while IFS= read -r l; do say step "" "$l"; done
  awk -F"$T" 'f==0 {b[$1]=$0; next} b[$1]!=$0 {x=b[$1]; sub(/^[^\t]*\t/,"",x); k=$1; gsub("/",".",k); gsub("\t"," ",x); print "U\tstep\t\tset " k " to " x}' f=0 "$G/was/keys" f=1 "$G/now/keys"
  unit_steps | while IFS=$T read -r w n; do say step "" "$w ${n%.service}"; done
  if grep -qE "$T(started|stopped|restarted|reloaded|failed)\$" "$G/diff.units"; then say caveat "" "the memory of the processes of a unit cannot be restored"; fi
}
reloads() { booted && awk -F"$T" '$7 ~ /^(\/usr)?\/(etc|lib)\/systemd\/system/ {f=1} END {exit !f}' "$G/changes"; }
unit_steps() {
  f=0; [ -s "$G/changes" ] || [ -s "$G/diff.packages" ] && f=1
  awk -F"$T" -v OFS="$T" -v f=$f '$4=="started" {print "stop",$1} $4=="stopped" || $4=="failed" {if ($2=="active") print "start",$1}
    $4=="restarted" && f {print "restart",$1} $4=="reloaded" && f {print "reload-or-restart",$1}' "$G/diff.units"
}
bad() { say failed "" "$1"; : >"$G/failed"; }
meta() { chown -h "$2:$3" -- "$4" 2>/dev/null; [ -L "$4" ] || chmod "$(octal "$1")" -- "$4"; }
octal() { printf '%o' $((0x$1 & 4095)); }
files() {                                                            # puts the files back
  awk -F"$T" '$1=="created" && substr($2,1,length($2)-3)!="4" {print $7}' "$G/changes" >"$G/paths"; each "$G/paths" rm -f --
  awk -F"$T" '$1=="created" && substr($2,1,length($2)-3)=="4" {print $7}' "$G/changes" | sort -r >"$G/paths"; each "$G/paths" rmdir -- 2>/dev/null
  skip=
  while IFS=$T read -r how m u g t x p; do
    case $how in removed|edited|touched) ;; *) continue ;; esac
    [ -n "$skip" ] && case $p in "$skip"/*) continue ;; esac
    if [ "$x" != - ] && [ ! -e "$p" ] && [ ! -L "$p" ]; then          # gone, perhaps with everything below
      cp -a -- "$x" "$p" 2>/dev/null || bad "$p cannot be restored"; [ -d "$p" ] && [ ! -L "$p" ] && skip=$p; continue
    fi
    case ${m%???} in
    4) { [ -d "$p" ] && [ ! -L "$p" ]; } || { rm -f -- "$p"; mkdir -- "$p"; }; meta "$m" "$u" "$g" "$p" || bad "$p cannot be restored"; continue ;;
    esac
    [ "$x" = - ] && continue
    if [ -d "$p" ] && [ ! -L "$p" ]; then rmdir -- "$p" || { bad "$p is not empty"; continue; }; fi
    if [ -f "$p" ] && [ ! -L "$p" ] && [ ! -L "$x" ] && [ "$(stat -c %h -- "$p")" -gt 1 ]; then   # a hard link keeps its other names
      cat -- "$x" >"$p" && meta "$m" "$u" "$g" "$p" && touch -r "$x" -- "$p" || bad "$p cannot be restored"; continue
    fi
    if cp -a -- "$x" "$p.sysop-$id" 2>/dev/null && { [ ! -L "$p" ] || rm -f -- "$p"; } && mv -f -- "$p.sysop-$id" "$p"; then :; else rm -f -- "$p.sysop-$id"; bad "$p cannot be restored"; fi
  done <"$G/changes"
  awk -F"$T" '$1=="mode" {print $2 "\t" $3 "\t" $4}' "$G/changes" | sort -u | while IFS=$T read -r m u g; do
    awk -F"$T" -v k="$m$T$u$T$g" '$1=="mode" && $2 "\t" $3 "\t" $4==k {print $7}' "$G/changes" >"$G/paths"
    each "$G/paths" chown -h "$u:$g" -- 2>/dev/null; case ${m%???} in a) ;; *) each "$G/paths" chmod "$(octal "$m")" -- || bad "modes cannot be restored" ;; esac
  done
  # Folders get their time back, the deepest first. A folder above may have changed, too, when one was replaced.
  awk -F"$T" 'f==0 {for (p=$7; p!=""; sub(/\/[^\/]*$/,"",p)) d[p]; next} ($9 in d) && $1 ~ /^4/ {print $7 "\t" $9}' f=0 "$G/changes" f=1 "$G/list.was" | sort -t "$T" -k2 -r |
    while IFS=$T read -r t p; do touch -m -d "$t" -- "$p" 2>/dev/null || touch -m -d "${t%.*}" -- "$p" 2>/dev/null; done
  rm -f "$G/paths"
}
install_packages() {                                                 # the packages that were there before; 0 if all are back
  set --; y= r=0
  while IFS=$T read -r n a b; do
    [ "$a" = - ] && continue
    f=$(debs "$n" "$a")
    case $a in *' (unpacked)')
      [ -n "$f" ] && dpkg --force-downgrade --unpack "$G/debs/$f" >>"$G/log" 2>&1 </dev/null || r=1; continue ;;
    esac
    if [ -n "$f" ]; then set -- "$@" "$G/debs/$f"; else y="$y $n=$a"; fi
  done <"$G/diff.packages"
  [ $# = 0 ] || dpkg --force-confold --force-confmiss --force-downgrade -i "$@" >>"$G/log" 2>&1 </dev/null || r=1
  # shellcheck disable=SC2086 # names and versions of packages have no blanks
  [ -z "$y" ] || limited 300 apt-get -y -q --allow-downgrades -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-confmiss install $y >>"$G/log" 2>&1 </dev/null || r=1
  return $r
}
had() { awk -F"$T" -v n="$1" '$1==n {print $3}' "$G/was/packages"; }  # the status of a package before
purge_packages() {
  n=$(awk -F"$T" '$2=="-" {print $1}' "$G/diff.packages" | tr '\n' ' '); [ -n "$n" ] || return 0
  # shellcheck disable=SC2086
  if has apt-get && s=$(apt-get -s purge $n 2>/dev/null); then
    x=$(printf '%s\n' "$s" | sed -n -e 's/^Remv \([^ ]*\).*/\1/p' -e 's/^Purg \([^ ]*\).*/\1/p' | while read -r q; do case " $n " in *" $q "*|*" $q:"*) ;; *) echo "$q" ;; esac; done | sort -u | tr '\n' ' ')
    [ -z "$x" ] || { bad "purging $n would also remove $x"; return 0; }
  fi
  remove= purge=; for q in $n; do if [ "$(had "$q")" = config-files ]; then remove="$remove $q"; else purge="$purge $q"; fi; done
  # shellcheck disable=SC2086
  for v in remove purge; do
    eval "n=\$$v"; [ -n "$n" ] || continue
    dpkg --$v $n >>"$G/log" 2>&1 </dev/null || limited 300 apt-get -y -q $v $n >>"$G/log" 2>&1 </dev/null || bad "cannot $v $n"
  done
}
restore_packages() {
  [ -s "$G/diff.packages" ] || return 0
  export DEBIAN_FRONTEND=noninteractive
  install_packages && purge_packages || { purge_packages; install_packages || bad "not all packages could be installed: $(tail -n 1 "$G/log")"; }
  if [ -f "$G/was/marks" ] && has apt-mark; then
    apt-mark showauto 2>/dev/null | sort >"$G/marks"
    comm -23 "$G/was/marks" "$G/marks" >"$G/paths"; each "$G/paths" apt-mark auto >/dev/null 2>&1
    comm -13 "$G/was/marks" "$G/marks" >"$G/paths"; each "$G/paths" apt-mark manual >/dev/null 2>&1
  fi
}
# Loads the rules of nft. Tables with rules that only iptables can read are left to iptables, and owned tables to their owners.
load_nft() {
  nft -s list ruleset 2>/dev/null | awk -v fw="$(ls "$G/was/firewalld" 2>/dev/null)" '
    /^table / {t=$2 " " $3; b=""; if (!f) all[++n]=t; if (fw!="" && $3=="firewalld") left[t]} f {b=b $0 "\n"} {x=$0; gsub(/"[^"]*"/,"",x)}
    x ~ /^\tflags .*owner/ || f && x ~ /^\t\t(.* )?(xt|#) / {left[t]} /^}/ && f && !(t in left) {out=out b}
    END {for (i=1; i<=n; i++) if (!(all[i] in left)) print "delete table", all[i]; printf "%s", out}' f=0 - f=1 "$G/was/nft" >"$G/rules"
  nft -f "$G/rules" || bad "cannot load the rules of nft"
}
# Reverses the changes of the runtime rules of firewalld, zone by zone. Other runtime rules stay.
load_firewalld() {
  firewall-cmd --list-all-zones 2>/dev/null | awk -v OFS="$T" '
    function note(kind, item) {if (f) {was[z,kind,item]; if (!((z,kind,item) in now)) print z, "add", kind, item} else now[z,kind,item]}
    /^[^ \t]/ {z=$1; m=""} /^  / {m=$1 $2}
    /^  (services|ports|protocols|source-ports|sources|interfaces|icmp-blocks):/ {k=$1; sub(/s:$/,"",k); for (i=2; i<=NF; i++) note(k, $i)}
    /^  masquerade: yes/ {note("masquerade", "")}
    /^\t/ {x=$0; sub(/^\t/,"",x); if (m=="forward-ports:") note("forward-port", x); if (m=="richrules:") note("rich-rule", x)}
    END {for (p in now) if (!(p in was)) {split(p, v, SUBSEP); print v[1], "remove", v[2], v[3]}}' f=0 - f=1 "$G/was/firewalld" |
    sort -t "$T" -k2 -r >"$G/rules"
  while IFS=$T read -r z v k i; do firewall-cmd -q "--zone=$z" "--$v-$k${i:+=$i}" || bad "firewalld: cannot $v $k $i in zone $z"; done <"$G/rules"
  firewall-cmd --list-all-zones 2>/dev/null | cmp -s - "$G/was/firewalld" || bad "firewalld: the runtime rules are not as before"
}
load_rules() {                                                       # iptables|ip6tables
  # Tables that were not there are emptied.
  rules "$1" | awk '!f {was[$0]; next} /^\*/ {new=!($0 in was)} new && (/^\*/ || /^COMMIT/) {print} new && /^:/ && $2!="-" {print $1, "ACCEPT [0:0]"}' \
    f=0 "$G/was/$1" f=1 - >"$G/rules"
  cat "$G/was/$1" "$G/rules" | "$1-restore" || bad "cannot load the rules of $1"
  "$1" -V | grep -q nf_tables && has nft || return 0
  sed -n 's/^\*//p' "$G/rules" | while read -r t; do nft delete table "$([ "$1" = iptables ] && echo ip || echo ip6)" "$t"; done
}
# Puts back the sets that are there no longer, or differ. A set that is in use cannot be removed: its content is swapped
# with that of a new one, at once. Sets that are new are removed after the rules that use them, by drop_sets.
load_sets() {
  [ -s "$G/was/sets" ] || return 0
  ipset save 2>/dev/null | sort -k1,1r -k2 >"$G/sets"; plain_sets "$G/sets" >"$G/sets.plain"
  awk '
    function kind(l) {sub(/ hashsize [0-9]+/,"",l); sub(/ bucketsize [0-9]+/,"",l); sub(/ initval [^ ]+/,"",l); return l}
    f<2 {if ($1=="create") now[$2]=kind($0); else {in_now[$2]=in_now[$2] $0 "\n"; users[$3]=users[$3] " " $2}; next}
    f==2 {if ($1=="create") was[$2]=kind($0); else in_was[$2]=in_was[$2] $0 "\n"; next}
    $1=="create" {
      if (!($2 in now)) put[$2]=$2; else if (now[$2]!=was[$2]) {other[$2]; put[$2]=$2} else if (in_now[$2]!=in_was[$2]) {put[$2]="sysop-" ++n; swap[n]=$2} else next
      made=made $1 " " put[$2] substr($0, length($1 $2)+2) "\n"; next}
    $2 in put {made=made $1 " " put[$2] substr($0, length($1 $2)+2) "\n"}
    END {
      for (s in other) {                                               # also a list may use a set
        for (i=split(users[s], u, " "); i; i--) {print "del", u[i], s; if (!(u[i] in put) && index(in_was[u[i]], "add " u[i] " " s "\n")) made=made "add " u[i] " " s "\n"}
        print "destroy", s
      }
      printf "%s", made; for (i=1; i<=n; i++) print "swap sysop-" i, swap[i] "\ndestroy sysop-" i}' \
    f=1 "$G/sets.plain" f=2 "$G/was/ipset" f=3 "$G/was/sets" >"$G/sets.new"
  if awk '$1=="destroy" && $2 !~ /^sysop-/ {f=1} END {exit !f}' "$G/sets.new"; then
    for t in iptables ip6tables; do rules $t | grep -v -e '--match-set' -e '-j SET' | $t-restore; done
  fi
  ipset restore <"$G/sets.new" || bad "cannot load the sets of ipset"
}
drop_sets() {
  ipset list -n 2>/dev/null | awk '!f {was[$2]; next} !($1 in was) {print "flush", $1; d=d "destroy " $1 "\n"} END {printf "%s", d}' f=0 "$G/was/sets" f=1 - | ipset restore || bad "cannot remove the new sets of ipset"
}
rest() {                                                             # everything that is not a file or a package
  sets=; [ ! -f "$G/was/ipset" ] || cmp -s "$G/was/ipset" "$G/now/ipset" || sets=1
  { [ -z "$sets" ] || load_sets
  # The rules of nft come first: they leave out those of iptables.
  { [ ! -f "$G/was/nft" ] || echo nft; for f in "$G"/was/* "$G"/now/*; do echo "${f##*/}"; done; } | awk '!s[$0]++' | while IFS= read -r n; do
    cmp -s "$G/was/$n" "$G/now/$n" && continue
    case $n in
    cron.*) u=${n#cron.}; set --; [ -z "$u" ] || set -- -u "$u"
      if [ -f "$G/was/$n" ]; then crontab "$@" - <"$G/was/$n"; else crontab "$@" -r; fi || bad "cannot restore the crontab of $u" ;;
    nft) load_nft ;;
    firewalld) [ ! -f "$G/was/$n" ] || load_firewalld ;;
    iptables|ip6tables) [ ! -f "$G/was/$n" ] || load_rules "$n" ;;
    keys) awk -F"$T" 'f==0 {b[$1]=$0; next} b[$1]!=$0 {print b[$1]}' f=0 "$G/was/keys" f=1 "$G/now/keys" | while IFS=$T read -r k v; do
        # A container may set its name, but not write there.
        printf '%s\n' "$v" >"/proc/sys/$k" || { [ "$k" = kernel/hostname ] && hostname "$v"; } || bad "cannot set $k"; done ;;
    esac
  done
  [ -z "$sets" ] || drop_sets; } >>"$G/log" 2>&1
  if awk -F"$T" '$7 ~ /^\/etc\/ufw\// {f=1} END {exit !f}' "$G/changes" && has ufw; then ufw reload >>"$G/log" 2>&1; fi
  if awk -F"$T" '$7 ~ /^\/etc\/firewalld\// {f=1} END {exit !f}' "$G/changes" && [ ! -f "$G/was/firewalld" ] && has firewall-cmd; then firewall-cmd --reload >>"$G/log" 2>&1; fi
  unit_steps | while IFS=$T read -r w n; do
    systemctl reset-failed -- "$n" >/dev/null 2>&1; systemctl "$w" -- "$n" >>"$G/log" 2>&1 </dev/null || bad "cannot $w $n"
  done
}
apply() {                                                            # NEW BYTES; keeps the present state as record NEW
  check || return 1
  old=$G new=$D/$1; rm -f "$old/failed"; mkdir -p "$new" || return 1
  { cat "$old/entries"; awk -F"$T" '{print "c:" $7}' "$old/changes"; } | awk '!s[$0]++' | grep -v '^a:' >"$new/entries"
  awk -F"$T" '{print $1}' "$old/diff.packages" >"$new/fetch"
  awk 'f==0 {c[$1]; next} FNR in c' f=0 "$old/cut" f=1 "$old/roots" >"$new/skip"
  G=$new id=$1; before "$2" >/dev/null; G=$old
  select_list was; files; reloads && systemctl daemon-reload
  if [ -s "$G/diff.packages" ]; then
    restore_packages; files
    lists; compare | awk -F"$T" '$1=="created" && $7 ~ /\.(dpkg-(dist|new|old)|ucf-(dist|old))$/ {print $7}' >"$G/paths"; each "$G/paths" rm -f --
  fi
  rest
  lists; cp "$G/changes" "$G/done"
  compare | awk -F"$T" 'f==0 {if (!(($1=="removed" || $1=="edited" || $1=="touched") && $6=="-")) k[$7]; next} $1!="touched" && ($7 in k) {print $7 " differs from before"}' f=0 "$G/done" f=1 - | head -n 5 |
    while IFS= read -r l; do bad "$l"; done
  rm -f "$G/list.was" "$G/list.now" "$G/all.now" "$G/done"
  G=$new; after
  if [ -f "$old/failed" ]; then say end failed; else say end "done"; fi
}

GONE="the record of this call is gone; records are kept for $KEEP_DAYS days"
case $verb in
after|plan|apply) [ -d "$G" ] || { say changed "" "$GONE"; exit 1; }
  [ -f "$G/own" ] || : >"$G/own"; [ -f "$G/own.find" ] || : >"$G/own.find" ;;       # records of earlier versions have none
esac
case $verb in
before)
  b=$1; shift; mkdir -p "$D" 2>/dev/null && chmod 700 "$D" 2>/dev/null && [ -O "$D" ] || { say none "$D cannot be written"; exit 1; }
  mkdir "$G" 2>/dev/null || { say none "no space or no permission in $D"; exit 1; }
  tidy; for e in "$@"; do printf '%s\n' "$e"; done >"$G/entries"
  trap 'rm -rf "$G"; exit 1' HUP INT TERM PIPE
  if before "$b" 2>>"$G/log"; then say ready; else rm -rf "$G"; say none "the previous state could not be saved"; exit 1; fi ;;
after) after 2>>"$G/log" ;;
plan) if check 2>>"$G/log"; then plan 2>>"$G/log"; say end; fi ;;
apply) apply "$@" 2>>"$G/log" ;;
drop) rm -rf -- "$G" "$G.kb" ;;
esac
