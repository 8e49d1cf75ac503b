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
    # Readline completes a word with `@` as the name of a host in /etc/hosts, and would append to it.
    if [[ $typed == *@* ]]; then
        COMPREPLY=()
        return
    fi
    local COMP_CWORD=$last
    local -a COMP_WORDS=("${joined[@]}")
    _clap_complete_sysop "$1" "$typed" "$3"
    local kept= breaks=${COMP_WORDBREAKS//[^:=]/}
    if [[ -n $breaks ]]; then
        kept=${typed%"${typed##*[$breaks]}"}
    fi
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
    done
}
