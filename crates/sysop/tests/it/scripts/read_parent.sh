# Prints the environment of the process that started it; with an argument nine times, with many lines between.
cat "/proc/$PPID/environ" | tr '\000' '\n'
[ "$1" ] || exit 0
for i in 1 2 3 4 5 6 7 8 9; do cat "/proc/$PPID/environ"; seq 20000; done
