_sysop() {
    local rest=${COMP_LINE:0:COMP_POINT} blanks word i last=0
    local -a joined=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blanks=${rest%%[![:blank:]]*}
        rest=${rest#"$blanks"}
        word=${COMP_WORDS[i]}
        if ((i == COMP_CWORD)); then
            word=$rest
        fi
        rest=${rest#"$word"}
        if [[ -n $blanks || $i -eq 0 ]]; then
            last=${#joined[@]}
            joined[last]=$word
        else
            joined[last]+=$word
        fi
    done
    local typed=${joined[last]}
    local COMP_CWORD=$last
    local -a COMP_WORDS=("${joined[@]}")
    _clap_complete_sysop "$1" "$typed" "$3"
    # Without a typed `-`, flags are candidates only if there is nothing else.
    if [[ -z $typed ]]; then
        local -a names=()
        for i in "${!COMPREPLY[@]}"; do
            [[ ${COMPREPLY[i]} == -* ]] || names+=("${COMPREPLY[i]}")
        done
        if ((${#names[@]} > 0)); then
            COMPREPLY=("${names[@]}")
        fi
    fi
    local kept= breaks=${COMP_WORDBREAKS//[^:=]/}
    if [[ -n $breaks ]]; then
        kept=${typed%"${typed##*[$breaks]}"}
    fi
    # Readline breaks a word before `@`, not behind it.
    local rest=${typed#"$kept"}
    if [[ $COMP_WORDBREAKS == *@* && $rest == *@* ]]; then
        kept+=${rest%"@${rest##*@}"}
    fi
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
    done
}
