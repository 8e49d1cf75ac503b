# sysop: Alt+S turns the line being typed into a command and puts it back on the line. Only Enter runs it.
# Put this into ~/.bashrc:  eval "$(sysop shell-init bash)"
if [[ $- == *i* ]]; then
    __sysop_propose() {
        [[ ${READLINE_LINE-} == *[![:space:]]* ]] || return 0
        local answer code=0 interrupt
        # With a trap, Ctrl+C ends the wait and keeps the line. It is set before the user sees that there is a wait.
        interrupt=$(trap -p INT)
        trap code=130 INT
        printf '\rsysop: asking the model …' >&2
        ((code)) ||
            answer=$(printf '%s' "$READLINE_LINE" | command sysop shell-init bash --propose 2>/dev/null) || code=$?
        printf '\r\033[K' >&2
        if [[ -n $interrupt ]]; then eval "$interrupt"; else trap - INT; fi
        if ((code == 0)) && [[ -n $answer ]]; then
            READLINE_LINE=$answer
            READLINE_POINT=${#READLINE_LINE}
        elif ((code != 130)); then
            printf '%s\n' "${answer:-sysop: no proposal (exit code $code)}" >&2
        fi
        return 0
    }
    bind -m emacs-standard -x '"\es": __sysop_propose'
    bind -m vi-insert -x '"\es": __sysop_propose'
fi
