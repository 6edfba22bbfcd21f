# Completion of weir in bash. What a word may become is asked of the program itself.
_weir()
{
    local -a words=()
    local word glued=
    # Bash takes words apart at colons and equals signs: an address, --flag=value. They belong together.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ $glued || $word == [:=]* ]] && ((${#words[@]} > 0)); then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        [[ $word == *[:=] ]] && glued=yes || glued=
    done
    local last=${words[-1]}
    local before=${last%"${last##*[:=]}"} # what bash keeps
    COMPREPLY=()
    while IFS=$'\t' read -r word _; do
        printf -v word %q "${word#"$before"}"
        COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
}
complete -o default -F _weir weir
