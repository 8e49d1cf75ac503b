# sysop: Alt+S turns the line being typed into a command and puts it back on the line. Only Enter runs it.
# Put this into ~/.config/fish/config.fish:  sysop shell-init fish | source
if status is-interactive
    function __sysop_propose
        set -l line (commandline --current-buffer | string collect)
        string match --quiet --regex '\S' -- $line
        or return 0
        set -l answer (printf '%s' $line | command sysop shell-init fish --propose 2>/dev/null)
        set -l code $status
        set answer (string join -- \n $answer | string collect)
        if test $code -eq 0; and test -n "$answer"
            commandline --replace -- $answer
            commandline --cursor (string length -- $answer)
        else if test $code -ne 130
            test -n "$answer"
            or set answer "sysop: no proposal (exit code $code)"
            printf '\n%s\n' $answer >&2
        end
        commandline --function repaint
    end
    bind --user \es __sysop_propose
    bind --user --mode insert \es __sysop_propose
end
