(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
_forge() {
    local -a found
    found=("${(@f)$(_FORGE_COMPLETE=1 "${words[1]}" "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _forge forge
