# sysop: Alt+S turns the line being typed into a command and puts it back on the line. Only Enter runs it.
# Put this into ~/.zshrc:  eval "$(sysop shell-init zsh)"
if [[ -o interactive ]]; then
    __sysop_propose() {
        emulate -L zsh
        [[ $BUFFER == *[^[:space:]]* ]] || return 0
        local answer
        local -i code=0
        # With a trap, which ends with this function, Ctrl+C ends the wait and keeps the line.
        trap : INT
        zle -R 'sysop: asking the model …'
        answer=$(print -rn -- "$BUFFER" | command sysop shell-init zsh --propose 2>/dev/null) || code=$?
        if (( code == 0 )) && [[ -n $answer ]]; then
            BUFFER=$answer
            CURSOR=${#BUFFER}
            zle -M ''
        elif (( code == 130 )); then
            zle -M ''
        else
            zle -M "${answer:-sysop: no proposal (exit code $code)}"
        fi
        return 0
    }
    zle -N __sysop_propose
    bindkey -M emacs '^[s' __sysop_propose
    bindkey -M viins '^[s' __sysop_propose
fi
