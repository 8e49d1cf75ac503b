enter "$2" ''
[ -r . ] || no permission
if find . -prune -printf '' 2>/dev/null; then
  find . ! -name . -prune -printf '%y%f\0%l\0'
else
  for f in .* *; do
    case $f in .|..) continue ;; esac
    if [ -L "./$f" ]; then printf 'l%s\0%s\0' "$f" "$(readlink "./$f")"
    elif [ -d "./$f" ]; then printf 'd%s\0\0' "$f"
    elif [ -f "./$f" ]; then printf 'f%s\0\0' "$f"
    elif [ -e "./$f" ]; then printf 's%s\0\0' "$f"
    fi
  done
fi 2>/dev/null
:
