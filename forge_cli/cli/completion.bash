_forge_complete() {
    local IFS=$'\n'
    COMPREPLY=($(_FORGE_COMPLETE=1 "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _forge_complete forge
