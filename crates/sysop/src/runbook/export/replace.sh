
# replace FILE OLD NEW: OLD must occur exactly once.
replace() {
  text=$(cat -- "$1" && echo x) || { why="cannot read $1"; return 1; }
  text=${text%x}
  case $text in
    *"$2"*"$2"*) why="$1 has the text more than once"; return 1 ;;
    *"$2"*) ;;
    *) why="$1 does not have the text"; return 1 ;;
  esac
  printf '%s' "${text%%"$2"*}$3${text#*"$2"}" >"$1" || { why="cannot write $1"; return 1; }
}
