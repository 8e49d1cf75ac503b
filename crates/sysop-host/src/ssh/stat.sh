enter "$2" ''
n=$3
if [ -L "./$n" ]; then k=l
elif [ -d "./$n" ]; then k=d
elif [ -f "./$n" ]; then k=f
elif [ -e "./$n" ]; then k=s
else no missing
fi
m=$(stat -c '%s %a %u %g %Y' "./$n" 2>/dev/null || stat -f '%z %Mp%Lp %u %g %m' "./$n" 2>&1) || system "$m"
printf '%s %s\n' "$k" "$m"
[ "$k" = l ] && readlink "./$n"
:
