# First the rules, each as name and content; then the files, at most $3 bytes of them. Nothing is followed.
enter "$2" ''
find . -name .git -prune -o \( -name .gitignore -o -name .ignore \) -type f -size -1048577c \
  -exec sh -c 'for f; do printf "%s\0" "$f"; cat "$f"; printf "\0"; done' sh {} + 2>/dev/null
printf '\0'
find . -name .git -prune -o ! -type d -print0 2>/dev/null | head -c "$3"
:
